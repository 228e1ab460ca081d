// SPDX-License-Identifier: Apache-2.0
#include "restore/stopping.hpp"

#include "base/contents.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <time.h>

namespace cryo::restore {

namespace {

constexpr uint64_t bit(int signal)
{
    return uint64_t(1) << (signal - 1);
}

// As in the process's or thread's file "stat"; 0: it has ended.
char state_in(const std::string &file)
{
    const Result<std::string> stat = contents(file);
    if (!stat && (stat.error().code() == ENOENT || stat.error().code() == ESRCH))
        return 0;
    const size_t end = stat ? stat->rfind(')') : std::string::npos;
    return end == std::string::npos || end + 2 >= stat->size() ? '?' : (*stat)[end + 2];
}

// Whether all threads of the process are stopped, or zombies.
bool stands_still(pid_t pid)
{
    const std::string tasks = fmt::format("/proc/{}/task", pid);
    std::error_code error;
    for (const auto &task : std::filesystem::directory_iterator(tasks, error)) {
        const char state = state_in(task.path() / "stat");
        if (state != 0 && state != 'T' && state != 'Z')
            return false;
    }
    return true;
}

// Whether its first thread is, in a call that waits, back from wherever a signal had led it.
bool waits(pid_t pid)
{
    return state_in(fmt::format("/proc/{}/stat", pid)) == 'S';
}

struct Signals {
    bool taken = false;     // the stop that it was sent, by the thread that is to stop it
    bool continued = false; // by another process's SIGCONT: the restorer blocks that, so it waits
};

Signals signals_of(pid_t pid, int stop)
{
    std::ifstream file(fmt::format("/proc/{}/status", pid));
    Signals now;
    bool traced = true;
    for (std::string line; std::getline(file, line);) {
        const auto has = [&](int signal) {
            return (std::stoull(line.substr(7), nullptr, 16) & bit(signal)) != 0;
        };
        if (line.starts_with("TracerPid:"))
            traced = std::stoi(line.substr(10)) != 0;
        else if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:"))
            now.continued = now.continued || has(SIGCONT);
        if (line.starts_with("ShdPnd:"))
            now.taken = !has(stop) && !traced;
    }
    return now;
}

} // namespace

Result<int> stop_process(pid_t pid, int signal)
{
    constexpr int turns = 25'000; // of 200 µs
    kill(pid, signal);
    for (int i = 0; !stands_still(pid); i++) {
        const Signals now = signals_of(pid, signal);
        // The stop may be just reaching the threads, which then stop before they run any of the
        // program.
        if (now.taken && (signal == SIGSTOP || now.continued))
            break;
        // From where it has taken a signal of the terminal, the thread goes into its stop, or back
        // to its call: because it was continued, or because the kernel ignores the signal.
        if (now.taken && waits(pid) && !signals_of(pid, signal).continued) {
            signal = SIGSTOP;
            kill(pid, signal);
        }
        if (i == turns)
            return Error(ETIMEDOUT, fmt::format("was saved as stopped, and process {} does not "
                                                "stop again; is it traced?",
                                                pid));
        const timespec pause = {0, 200'000};
        nanosleep(&pause, nullptr);
    }
    return signal;
}

std::string about_other_stop(pid_t pid, int signal)
{
    return fmt::format("process {} was stopped by SIG{} and is now by SIGSTOP, as its parent sees: "
                       "nobody outside its process group could continue it here, and so the kernel "
                       "ignores SIG{}",
                       pid, sigabbrev_np(signal), sigabbrev_np(signal));
}

} // namespace cryo::restore
