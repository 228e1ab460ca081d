// SPDX-License-Identifier: Apache-2.0
#include "coord/auth.hpp"

#include <crypt.h>
#include <cstring>
#include <fmt/format.h>
#include <sys/random.h>

namespace cryo::coord {

namespace {

using nlohmann::json;

constexpr uint32_t stranger_limit = 1024;

// A hash that only who knows the secret can make: libcrypt's SHA-256, which is slow (a fraction of
// a millisecond) and of which nothing can be continued.
std::string proof(const std::string &secret, const char *role, const std::string &listener,
                  const std::string &connector)
{
    crypt_data data = {};
    const std::string phrase = fmt::format("{} {} {} {}", role, listener, connector, secret);
    const char *hash = crypt_r(phrase.c_str(), "$5$rounds=1000$cryo$", &data);
    return hash != nullptr && hash[0] == '$' ? hash : random_hex(32);
}

bool equal(const std::string &a, const std::string &b)
{
    unsigned difference = a.size() != b.size();
    for (size_t i = 0; i < a.size() && i < b.size(); i++)
        difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b[i]);
    return difference == 0;
}

// Made by random_hex(16), and nothing else: a phrase must not end where the other end wants it to.
bool is_random(const std::string &text)
{
    return text.size() == 32 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

std::string field(std::string_view body, const char *name)
{
    const json message = json::parse(body, nullptr, false);
    if (!message.is_object() || !message.contains(name) || !message[name].is_string())
        return {};
    return message[name];
}

void send(Channel &channel, const json &message)
{
    channel.send(FrameKind::json, message.dump());
}

void refuse(Channel &channel)
{
    const std::function<void()> told = std::move(channel.on_end);
    channel.close();
    if (told)
        told();
}

} // namespace

std::string random_hex(size_t bytes)
{
    std::string text;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char byte = 0;
        while (getrandom(&byte, 1, 0) != 1)
            ;
        text += fmt::format("{:02x}", byte);
    }
    return text;
}

void expect_proof(const std::shared_ptr<Channel> &channel, const std::string &secret, Proven then)
{
    const std::string challenge = random_hex(16);
    channel->limit(stranger_limit);
    Channel *at = channel.get();
    channel->on_frame = [at, secret, challenge, then](FrameKind, std::string_view body) {
        const std::string nonce = field(body, "nonce");
        if (!is_random(nonce) ||
            !equal(field(body, "proof"), proof(secret, "connect", challenge, nonce))) {
            refuse(*at);
            return;
        }
        send(*at, {{"proof", proof(secret, "accept", challenge, nonce)}});
        at->limit(most_body);
        at->on_frame = nullptr;
        then();
    };
    send(*channel, {{"challenge", challenge}});
}

void give_proof(const std::shared_ptr<Channel> &channel, const std::string &secret, Proven then)
{
    const std::string nonce = random_hex(16);
    channel->limit(stranger_limit);
    Channel *at = channel.get();
    channel->on_frame = [at, secret, nonce, then](FrameKind, std::string_view first) {
        const std::string challenge = field(first, "challenge");
        if (!is_random(challenge)) {
            refuse(*at);
            return;
        }
        send(*at, {{"nonce", nonce}, {"proof", proof(secret, "connect", challenge, nonce)}});
        at->on_frame = [at, secret, nonce, challenge, then](FrameKind, std::string_view second) {
            if (!equal(field(second, "proof"), proof(secret, "accept", challenge, nonce))) {
                refuse(*at);
                return;
            }
            at->limit(most_body);
            at->on_frame = nullptr;
            then();
        };
    };
}

} // namespace cryo::coord
