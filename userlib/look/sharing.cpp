// SPDX-License-Identifier: Apache-2.0
#include "look/sharing.hpp"

#include "sys/raw.hpp"

#include <array>
#include <cerrno>
#include <csignal>
#include <linux/ioprio.h>
#include <linux/kcmp.h>
#include <map>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

namespace cryo::capture {

namespace {

int kind_of(uint64_t flag)
{
    return flag == CLONE_FS      ? KCMP_FS
           : flag == CLONE_FILES ? KCMP_FILES
           : flag == CLONE_IO    ? KCMP_IO
                                 : KCMP_SYSVSEM;
}

// Below 0: it is not known, as kcmp(2) may not be called or a process has ended; else 0 if they
// share it, 1 if the first one's precedes the other's in the kernel's order, 2 if it follows.
long compare(uint64_t flag, pid_t one, pid_t other)
{
    return syscall(SYS_kcmp, one, other, kind_of(flag), 0, 0);
}

// Runs in the memory of its maker, beside it: system calls only.
[[noreturn]] int wait_for_the_end(void *maker)
{
    sys::call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    if (sys::call(SYS_getppid) != *static_cast<const pid_t *>(maker))
        sys::call(SYS_exit_group, 1);
    for (;;)
        sys::call(SYS_pause);
}

// A process without an I/O context and without a list of operations to undo: the kernel makes both
// when they are needed first, and to kcmp(2) all processes that have none are alike.
class Blank
{
  public:
    // A process has an I/O context from the beginning if its maker's, which is that of the calling
    // thread, has a priority. One of class "none" is none.
    Blank()
    {
        has_no_context_ = syscall(SYS_ioprio_set, IOPRIO_WHO_PROCESS, 0, 0) == 0; // of this thread
        maker_ = getpid();
        pid_ = clone(wait_for_the_end, stack_.data() + stack_.size(), CLONE_VM, &maker_);
    }
    Blank(const Blank &) = delete;
    Blank &operator=(const Blank &) = delete;
    ~Blank()
    {
        if (pid_ <= 0)
            return;
        kill(pid_, SIGKILL);
        while (waitpid(pid_, nullptr, __WALL) < 0 && errno == EINTR)
            ;
    }
    // Whether the process has one; no if that cannot be said.
    bool is_owner(uint64_t flag, pid_t pid) const
    {
        return pid_ > 0 && (flag != CLONE_IO || has_no_context_) && compare(flag, pid, pid_) > 0;
    }

  private:
    alignas(16) std::array<char, 16384> stack_ = {};
    pid_t maker_ = 0;
    bool has_no_context_ = false;
    pid_t pid_ = -1;
};

using Groups = std::vector<std::vector<size_t>>;

void leave_out_blank(uint64_t flag, const std::vector<pid_t> &pids, Groups &groups)
{
    const auto work = [&] {
        const Blank blank;
        std::erase_if(groups, [&](const std::vector<size_t> &group) {
            return !blank.is_owner(flag, pids[group.front()]);
        });
    };
    try {
        std::thread(work).join(); // whose I/O context is that of no other thread
    } catch (const std::system_error &) {
        work(); // the user's limit of threads is reached
    }
}

} // namespace

Groups sharers(uint64_t flag, const std::vector<pid_t> &pids)
{
    bool known = true;
    const auto before = [&](pid_t one, pid_t other) {
        const long order = compare(flag, one, other);
        known = known && order >= 0;
        return order == 1;
    };
    std::map<pid_t, std::vector<size_t>, decltype(before)> found(before);
    for (size_t i = 0; i < pids.size(); i++) {
        // One that has ended has no place in the order.
        if (compare(flag, pids[i], pids[i]) == 0)
            found[pids[i]].push_back(i);
    }
    Groups groups;
    for (auto &[first, group] : found) {
        if (group.size() > 1)
            groups.push_back(std::move(group));
    }
    if (!known)
        return {};
    if (!groups.empty() && (flag == CLONE_IO || flag == CLONE_SYSVSEM))
        leave_out_blank(flag, pids, groups);
    return groups;
}

std::optional<bool> are_sharers(uint64_t flag, pid_t one, pid_t other)
{
    const long order = compare(flag, one, other);
    return order < 0 ? std::nullopt : std::optional(order == 0);
}

const char *what_is_shared(uint64_t flag)
{
    return flag == CLONE_FS      ? "its working directory, root and umask"
           : flag == CLONE_FILES ? "its descriptors"
           : flag == CLONE_IO    ? "its I/O context"
                                 : "what is undone of its semaphore operations at its end";
}

} // namespace cryo::capture
