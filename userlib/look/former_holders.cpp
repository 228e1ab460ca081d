// SPDX-License-Identifier: Apache-2.0
#include "look/former_holders.hpp"

#include "protocol/agent.hpp"

#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <fstream>
#include <string>
#include <time.h>

namespace cryo::restore {

namespace {

struct Holder {
    bool there = false;
    bool ending = false; // it has ended, or is bound to end
    pid_t parent = 0;
};

Holder holder_of(pid_t pid)
{
    Holder found;
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    const uint64_t killed = 1ULL << (SIGKILL - 1);
    for (std::string line; std::getline(status, line);) {
        found.there = true;
        const std::string value = line.substr(line.find(':') + 1);
        if (line.starts_with("State:"))
            found.ending |= value.find_first_of("ZX") != std::string::npos;
        else if (line.starts_with("PPid:"))
            found.parent = std::stoi(value);
        else if (line.starts_with("SigPnd:") || line.starts_with("ShdPnd:"))
            found.ending |= (std::stoull(value, nullptr, 16) & killed) != 0;
    }
    return found;
}

} // namespace

bool is_ending(pid_t pid)
{
    return holder_of(pid).ending;
}

bool is_passing(pid_t pid)
{
    std::ifstream file(fmt::format("/proc/{}/comm", pid));
    std::string name;
    std::getline(file, name);
    return name.empty() || name == agent::copy_name || is_ending(pid);
}

Error in_use(pid_t pid)
{
    return Error(EBUSY,
                 fmt::format("pid {} is in use here; wait for it to exit, or use --pidns (a "
                             "pid namespace where it is free) or --no-restore-pid (a new one)",
                             pid));
}

Result<void> await_free(const std::vector<pid_t> &pids, int patience_ms, int grace_ms)
{
    int waited_ms = 0;
    for (const pid_t pid : pids) {
        for (;;) {
            const Holder holder = holder_of(pid);
            if (!holder.there)
                break;
            if (!holder.ending && grace_ms-- <= 0)
                return in_use(pid);
            if (holder.ending && waited_ms++ >= patience_ms)
                return Error(EBUSY,
                             fmt::format("pid {} is held by a process that has ended and that its "
                                         "parent, {}, does not wait for; end that, or use "
                                         "--pidns or --no-restore-pid",
                                         pid, holder.parent));
            const timespec pause = {0, 1'000'000};
            nanosleep(&pause, nullptr);
        }
    }
    return {};
}

std::vector<pid_t> await_most_free(std::vector<pid_t> pids, int patience_ms, int grace_ms)
{
    for (int waited_ms = 0;; waited_ms++) {
        bool is_any_ending = false;
        std::erase_if(pids, [&](pid_t pid) {
            const Holder holder = holder_of(pid);
            is_any_ending |= holder.ending;
            return !holder.there;
        });
        if (pids.empty() || waited_ms >= (is_any_ending ? patience_ms : grace_ms))
            return pids;
        const timespec pause = {0, 1'000'000};
        nanosleep(&pause, nullptr);
    }
}

} // namespace cryo::restore
