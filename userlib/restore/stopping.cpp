// SPDX-License-Identifier: Apache-2.0
#include "restore/stopping.hpp"

#include "base/contents.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <time.h>

namespace cryo::restore {

namespace {

// Whether all threads of the process are stopped, or zombies.
bool stands_still(pid_t pid)
{
    const std::string tasks = fmt::format("/proc/{}/task", pid);
    std::error_code error;
    for (const auto &task : std::filesystem::directory_iterator(tasks, error)) {
        const Result<std::string> stat = contents(task.path() / "stat");
        if (!stat && (stat.error().code() == ENOENT || stat.error().code() == ESRCH))
            continue; // it has ended
        const size_t end = stat ? stat->rfind(')') : std::string::npos;
        if (end == std::string::npos || end + 2 >= stat->size() ||
            ((*stat)[end + 2] != 'T' && (*stat)[end + 2] != 'Z'))
            return false;
    }
    return true;
}

// Whether the stop that it was sent was ended by another process's SIGCONT. It looks the same
// while the stop is just reaching its threads; then they stop before they run any of the program.
bool was_continued(pid_t pid)
{
    std::ifstream file(fmt::format("/proc/{}/status", pid));
    bool pending = true;
    bool traced = true;
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with("TracerPid:"))
            traced = std::stoi(line.substr(10)) != 0;
        else if (line.starts_with("ShdPnd:"))
            pending = (std::stoull(line.substr(7), nullptr, 16) & 1ULL << (SIGSTOP - 1)) != 0;
    }
    return !pending && !traced;
}

} // namespace

Result<void> stop_process(pid_t pid)
{
    constexpr int turns = 25'000; // of 200 µs
    kill(pid, SIGSTOP);
    for (int i = 0; !stands_still(pid) && !was_continued(pid); i++) {
        if (i == turns)
            return Error(ETIMEDOUT, fmt::format("was saved as stopped, and process {} does not "
                                                "stop again; is it traced?",
                                                pid));
        const timespec pause = {0, 200'000};
        nanosleep(&pause, nullptr);
    }
    return {};
}

} // namespace cryo::restore
