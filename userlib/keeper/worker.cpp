// SPDX-License-Identifier: Apache-2.0
#include "keeper/worker.hpp"

#include "base/clock.hpp"
#include "base/fd.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

namespace cryo::keeper {

namespace {

constexpr size_t most_text = 1 << 20; // bytes kept of each output of a command

double seconds(const timeval &time)
{
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_usec) / 1e6;
}

struct Pipe {
    Pipe()
    {
        int ends[2];
        if (pipe2(ends, O_CLOEXEC) == 0) {
            out = Fd(ends[0]);
            in = Fd(ends[1]);
        }
    }
    Fd out, in;
};

// Reads both until their ends.
void collect(const Fd &first, std::string &first_text, const Fd &second, std::string &second_text)
{
    pollfd ready[] = {{first.get(), POLLIN, 0}, {second.get(), POLLIN, 0}};
    std::string *texts[] = {&first_text, &second_text};
    while (ready[0].fd >= 0 || ready[1].fd >= 0) {
        if (poll(ready, 2, -1) < 0 && errno != EINTR)
            return;
        for (size_t i = 0; i < 2; i++) {
            char buffer[4096];
            if (ready[i].fd < 0 || ready[i].revents == 0)
                continue;
            const ssize_t got = read(ready[i].fd, buffer, sizeof(buffer));
            if (got > 0 && texts[i]->size() < most_text)
                texts[i]->append(buffer, static_cast<size_t>(got));
            else if (got == 0 || (got < 0 && errno != EINTR))
                ready[i].fd = -1;
        }
    }
}

} // namespace

double monotonic_now()
{
    return static_cast<double>(now_ns()) / 1e9;
}

Done run(std::vector<std::string> words)
{
    Done done;
    Pipe output;
    Pipe messages;
    std::vector<char *> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);

    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output.in.get(), STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, messages.in.get(), STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    posix_spawnattr_setsigmask(&attributes, &none);
    sigset_t standard; // of what the keeper ignores
    sigemptyset(&standard);
    sigaddset(&standard, SIGPIPE);
    sigaddset(&standard, SIGXFSZ);
    posix_spawnattr_setsigdefault(&attributes, &standard);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);

    const double begun = monotonic_now();
    pid_t child = -1;
    const int error = posix_spawn(&child, words.front().c_str(), &actions, &attributes,
                                  arguments.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) {
        done.status = W_EXITCODE(127, 0);
        done.messages = fmt::format("{}: {}", words.front(), strerror(error));
        return done;
    }
    output.in.reset();
    messages.in.reset();
    collect(output.out, done.output, messages.out, done.messages);
    rusage used = {};
    while (wait4(child, &done.status, 0, &used) < 0) {
        if (errno == EINTR)
            continue;
        done.status = W_EXITCODE(127, 0); // nothing says that it has succeeded
        done.messages += fmt::format("waiting for {}: {}", words.front(), strerror(errno));
        break;
    }
    done.cpu_s = seconds(used.ru_utime) + seconds(used.ru_stime);
    done.elapsed_s = monotonic_now() - begun;
    return done;
}

} // namespace cryo::keeper
