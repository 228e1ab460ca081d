// SPDX-License-Identifier: Apache-2.0
#include "recover/restart.hpp"

#include "base/pipe.hpp"
#include "cli/place.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <fcntl.h>
#include <nlohmann/json.hpp>
#include <spawn.h>
#include <unistd.h>
#include <vector>

namespace cryo::recover {

Result<Restart> begin_restart(const std::string &image, const keeper::Settings &keeping,
                              const sigset_t &mask)
{
    Result<PipeEnds> report = make_pipe();
    if (!report)
        return report.error();
    std::vector<std::string> words = {cli::command("cr_restart"), "-q", "--supervisor",
                                      std::to_string(report->write.get())};
    const std::vector<std::string> wanted = keeper::words_of(keeping);
    words.insert(words.end(), wanted.begin(), wanted.end());
    words.push_back(image);
    std::vector<char *> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    // To its own number: it stays open in the new program.
    posix_spawn_file_actions_adddup2(&actions, report->write.get(), report->write.get());
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigmask(&attributes, &mask);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK);
    Restart begun;
    const int error =
        posix_spawn(&begun.pid, arguments[0], &actions, &attributes, arguments.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
        return Error::from_errno(words.front(), error);
    begun.report = std::move(report->read);
    fcntl(begun.report.get(), F_SETFL, O_NONBLOCK);
    return begun;
}

std::optional<Return> take_report(Fd &report)
{
    // Shorter than a pipe's buffer, the line comes as a whole or not at all.
    char line[PIPE_BUF];
    const ssize_t n = read(report.get(), line, sizeof(line));
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return {};
    report.reset();
    const nlohmann::json back =
        nlohmann::json::parse(line, line + std::max<ssize_t>(n, 0), nullptr, false);
    if (!back.is_object())
        return {};
    return Return{.pid = back.value("pid", 0),
                  .own_pid = back.value("own_pid", 0),
                  .saved_at_ns = back.value("saved_at_ns", int64_t(0)),
                  .keeper = back.value("keeper", 0)};
}

} // namespace cryo::recover
