// SPDX-License-Identifier: Apache-2.0
//
// What TLS costs a job is seen beside a daemon that has none. This is its Tls: the same interface
// and as many messages, but no cryptography at all. Linked before the library it takes the place of
// tls.cpp in a daemon of the benchmark alone, which is never installed.
#include "coord/tls.hpp"

#include <cstdlib>
#include <cstring>
#include <sys/random.h>

namespace cryo::coord {

// Takes OpenSSL's place in ssl_.
struct Tls::Hooks {
    std::string in, out;
    bool accepts;

    static std::unique_ptr<ssl_st, void (*)(ssl_st *)> make(bool accepts)
    {
        return {reinterpret_cast<ssl_st *>(new Hooks{{}, {}, accepts}),
                [](ssl_st *hooks) { delete reinterpret_cast<Hooks *>(hooks); }};
    }
    static Hooks &of(const Tls &tls) { return *reinterpret_cast<Hooks *>(tls.ssl_.get()); }
};

Key derived_key(const std::string &secret, const std::string &purpose)
{
    Key key = {};
    const size_t hash = std::hash<std::string>()(secret + purpose);
    memcpy(key.data(), &hash, sizeof(hash));
    return key;
}

Key random_key()
{
    Key key = {};
    if (getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()))
        abort();
    return key;
}

std::string random_hex(size_t bytes)
{
    std::string text;
    while (text.size() < 2 * bytes)
        text += to_hex(random_key());
    text.resize(2 * bytes);
    return text;
}

Tls::Tls(Find find) : find_(std::move(find)), ssl_(Hooks::make(true)) {}

Tls::Tls(const std::string &identity, Key key)
    : identity_(identity), key_(key), ssl_(Hooks::make(false))
{
    Hooks::of(*this).out = identity + "\n";
}

Tls::~Tls() = default;

// One that accepts is told a name, one that connects is told a line without one.
bool Tls::advance()
{
    Hooks &hooks = Hooks::of(*this);
    const size_t end = hooks.in.find('\n');
    if (established_ || end == std::string::npos)
        return true;
    if (hooks.accepts) {
        identity_ = hooks.in.substr(0, end);
        if (!find_(identity_))
            return false;
        hooks.out += '\n';
    }
    hooks.in.erase(0, end + 1);
    established_ = true;
    return true;
}

bool Tls::received(std::string_view bytes)
{
    Hooks::of(*this).in.append(bytes);
    return advance();
}

void Tls::take_output(std::string &to)
{
    to.append(Hooks::of(*this).out);
    Hooks::of(*this).out.clear();
}

bool Tls::read(std::string &to)
{
    if (established_) {
        to.append(Hooks::of(*this).in);
        Hooks::of(*this).in.clear();
    }
    return true;
}

bool Tls::write(std::string_view bytes)
{
    if (established_)
        Hooks::of(*this).out.append(bytes);
    return established_;
}

} // namespace cryo::coord
