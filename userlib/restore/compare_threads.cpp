// SPDX-License-Identifier: Apache-2.0
// Threads: which exist, and the state of each. Their registers are in their signal
// frames, in memory, except those that only the kernel has: these are read with ptrace.
#include "look/filters.hpp"
#include "look/thread_filters.hpp"
#include "restore/compare.hpp"
#include "restore/scheduling.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <elf.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// Stops a thread that waits in the restorer, for as long as it is examined.
class Held
{
  public:
    explicit Held(pid_t tid) : tid_(tid), held_(ptrace(PTRACE_SEIZE, tid, 0, 0) == 0)
    {
        int status = 0;
        if (held_ && ptrace(PTRACE_INTERRUPT, tid, 0, 0) == 0) {
            while (waitpid(tid, &status, __WALL) < 0 && errno == EINTR)
                ;
        }
        held_ = held_ && WIFSTOPPED(status);
    }
    ~Held()
    {
        if (held_)
            ptrace(PTRACE_DETACH, tid_, 0, 0);
    }
    Held(const Held &) = delete;
    Held &operator=(const Held &) = delete;

    bool holds() const { return held_; }
    bool registers(user_regs_struct &to) const
    {
        iovec place = {&to, sizeof(to)};
        return held_ && ptrace(PTRACE_GETREGSET, tid_, NT_PRSTATUS, &place) == 0;
    }

  private:
    pid_t tid_;
    bool held_;
};

// Where ptrace is forbidden, as in some containers, these registers are assumed to match.
Result<void> compare_registers(const image::Thread &saved)
{
    user_regs_struct now = {};
    const Held held(static_cast<pid_t>(saved.tid));
    if (!held.registers(now))
        return {};
    if (Result<void> same = same_hex("FS", now.fs_base, saved.fs_base); !same)
        return same;
    return same_hex("GS", now.gs_base, saved.gs_base);
}

bool is_same(const capture::CallFilter &now, const image::CallFilter &saved)
{
    return now.logs == saved.logs && now.code.size() == saved.code.size() &&
           std::memcmp(now.code.data(), saved.code.bytes().data(), saved.code.bytes().size()) == 0;
}

// The kernel tells everybody how many filters of system calls there are (since Linux 5.9), and some
// what these are.
Result<void> compare_filters(const Comparison &c, const image::Thread &saved,
                             std::string_view status)
{
    const Result<std::string> own = capture::Proc(getpid()).read("status");
    const unsigned ours = own ? capture::count_filters(*own) : 0;
    const auto &of_threads = c.saved.of<image::ThreadFilters>();
    const auto found = of_threads.find(saved.tid);
    const image::List<uint32_t> wanted =
        found != of_threads.end() ? found->second.filters : image::List<uint32_t>();
    if (Result<void> same = same_number("the number of its seccomp filters",
                                        capture::count_filters(status), ours + wanted.size());
        !same)
        return same;
    if (wanted.empty())
        return {};
    const Held held(static_cast<pid_t>(saved.tid));
    if (!held.holds())
        return {};
    const Result<std::vector<capture::CallFilter>> now =
        capture::read_filters(static_cast<pid_t>(saved.tid), ours);
    if (!now && now.error().code() == EPERM)
        return {};
    if (!now)
        return now.error();
    for (size_t i = 0; i < wanted.size(); i++) {
        if (i >= now->size() || !is_same((*now)[i], c.saved.of<image::CallFilter>().at(wanted[i])))
            return difference(fmt::format("its seccomp filter {} is another one", i + 1));
    }
    return {};
}

// Processors that are not available here are left out.
Result<void> compare_affinity(const image::Thread &saved)
{
    cpu_set_t now, all, wanted;
    CPU_ZERO(&wanted);
    if (sched_getaffinity(static_cast<pid_t>(saved.tid), sizeof(now), &now) != 0 ||
        sched_getaffinity(0, sizeof(all), &all) != 0)
        return {};
    for (size_t cpu = 0; cpu < saved.affinity.size() * 8 && cpu < CPU_SETSIZE; cpu++) {
        if ((saved.affinity[cpu / 8] >> cpu % 8 & 1) != 0 && CPU_ISSET(cpu, &all))
            CPU_SET(cpu, &wanted);
    }
    CPU_AND(&now, &now, &all);
    return CPU_COUNT(&wanted) == 0 || CPU_EQUAL(&now, &wanted)
               ? Result<void>()
               : difference("it runs on other processors than before");
}

Result<void> compare_scheduling(const image::Thread &saved)
{
    const auto tid = static_cast<pid_t>(saved.tid);
    const int policy = sched_getscheduler(tid);
    if (policy >= 0 && may_have_policy(static_cast<int>(saved.policy))) {
        if (Result<void> same =
                same_number("its scheduling policy", policy & ~SCHED_RESET_ON_FORK, saved.policy);
            !same)
            return same;
    }
    if (may_have_nice(saved.nice)) {
        if (Result<void> same =
                same_number("its nice value", getpriority(PRIO_PROCESS, saved.tid), saved.nice);
            !same)
            return same;
    }
    return compare_affinity(saved);
}

Result<void> compare_thread(const Comparison &c, const image::Thread &saved)
{
    const Result<std::string> status = c.proc().read(fmt::format("task/{}/status", saved.tid));
    Result<std::string> name = c.proc().read(fmt::format("task/{}/comm", saved.tid));
    if (!status || !name)
        return !status ? status.error() : name.error();
    if (!name->empty())
        name->pop_back();
    Result<void> same = same_text("its name", *name, saved.name);
    if (same)
        same = compare_pending(c, saved.tid, *status);
    if (same)
        same = compare_scheduling(saved);
    if (same)
        same = compare_filters(c, saved, *status);
    return same ? compare_registers(saved) : same;
}

} // namespace

Result<void> compare_threads(const Comparison &c)
{
    Result<std::vector<int>> now = c.proc().numbers("task");
    if (!now)
        return now.error();
    std::vector<int> saved;
    for (const image::Thread &thread : c.saved.threads())
        saved.push_back(static_cast<int>(thread.tid));
    std::ranges::sort(saved);
    if (*now != saved)
        return difference(fmt::format("its threads are {}, and {} in the image",
                                      fmt::join(*now, " "), fmt::join(saved, " ")));
    for (const image::Thread &thread : c.saved.threads()) {
        if (Result<void> same = compare_thread(c, thread); !same)
            return same.error().within(fmt::format("thread {}", thread.tid));
    }
    return {};
}

} // namespace cryo::restore
