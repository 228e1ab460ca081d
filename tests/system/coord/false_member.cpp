// SPDX-License-Identifier: Apache-2.0
// A member of a job that sends what a test tells it to. It knows the secret (CRYO_JOB), proves it,
// and then sends each line of its standard input as a message; it prints what it receives, line by
// line. A line of '#' and hexadecimal digits is sent as a message of the bookmark exchange.
//
//     false_member [WHO [OF]]     calls itself WHO (join/elsewhere), with the key of OF (of WHO)
//     false_member WHO =KEY       with this key
#include "coord/channel.hpp"
#include "coord/job.hpp"
#include "coord/net.hpp"
#include "coord/tls.hpp"

#include <cstdio>
#include <poll.h>
#include <string>
#include <unistd.h>

using namespace cryo;
using namespace cryo::coord;

namespace {

void say(std::string_view line)
{
    fwrite(line.data(), 1, line.size(), stdout); // there may be NULs in it
    putchar('\n');
    fflush(stdout);
}

std::string of_hex(const std::string &digits)
{
    std::string bytes;
    for (size_t i = 0; i + 1 < digits.size(); i += 2)
        bytes.push_back(static_cast<char>(std::stoi(digits.substr(i, 2), nullptr, 16)));
    return bytes;
}

Key key_of(const std::string &secret, const std::string &of)
{
    return of.starts_with('=') ? key_from_hex(of.substr(1)).value_or(Key{})
                               : derived_key(secret, of);
}

void listen_to_test(Loop &loop, Channel &channel)
{
    static std::string text;
    char bytes[65536];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof(bytes));
    if (n <= 0) {
        loop.stop();
        return;
    }
    text.append(bytes, static_cast<size_t>(n));
    for (size_t at; (at = text.find('\n')) != std::string::npos; text.erase(0, at + 1)) {
        if (text[0] == '#')
            channel.send(FrameKind::bookmark, of_hex(text.substr(1, at - 1)));
        else
            channel.send(FrameKind::json, text.substr(0, at));
    }
}

} // namespace

int main(int argc, char **argv)
{
    const Result<Job> job = job_from(own_variables());
    if (!job)
        return 2;
    Result<Fd> socket = connect_tcp(job->addresses, job->port);
    if (!socket) {
        say("refused");
        return 1;
    }
    Loop loop;
    const std::string who = argc > 1 ? argv[1] : "join/elsewhere";
    const std::string of = argc > 2 ? argv[2] : who;
    const std::shared_ptr<Channel> channel = Channel::make(
        loop, std::move(*socket), std::make_unique<Tls>(who, key_of(job->secret, of)));
    channel->on_end = [&loop] {
        say("ended");
        loop.stop();
    };
    channel->on_secure = [&] {
        channel->on_frame = [](FrameKind, std::string_view body) { say(body); };
        loop.watch(STDIN_FILENO, POLLIN, [&](short) { listen_to_test(loop, *channel); });
        say("proven");
    };
    loop.run();
    return 0;
}
