// SPDX-License-Identifier: Apache-2.0
#include "checkpointers.hpp"

#include "base/fd.hpp"
#include "base/patience.hpp"
#include "look/proc.hpp"

#include <algorithm>
#include <chrono>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace {

using std::chrono::steady_clock;

// By the file that they execute: a name that a process gives itself does not count.
std::vector<cryo::Fd> checkpointers()
{
    std::vector<cryo::Fd> found;
    const cryo::Result<std::vector<int>> all = cryo::capture::Proc(getpid()).numbers("..");
    for (const int pid : all ? *all : std::vector<int>()) {
        const cryo::Result<std::string> exe = cryo::capture::Proc(pid).link("exe");
        if (!exe || exe->substr(exe->rfind('/') + 1) != "cr_checkpoint")
            continue;
        cryo::Fd process(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
        if (process)
            found.push_back(std::move(process));
    }
    return found;
}

} // namespace

void await_checkpointers()
{
    const steady_clock::time_point limit = steady_clock::now() + cryo::local_delivery_limit;
    for (const cryo::Fd &process : checkpointers()) {
        pollfd end = {process.get(), POLLIN, 0};
        for (int ready = -1; ready < 0;) { // again after a signal
            const auto left =
                std::chrono::ceil<std::chrono::milliseconds>(limit - steady_clock::now());
            ready = poll(&end, 1, static_cast<int>(std::max<int64_t>(0, left.count())));
        }
    }
}
