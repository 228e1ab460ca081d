// SPDX-License-Identifier: Apache-2.0
#include "restore/nursery.hpp"

#include "look/former_holders.hpp"
#include "restore/birth_words.hpp"
#include "restore/choosing_ids.hpp"
#include "restorer/plan.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <new>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

std::vector<char *> pointers(std::vector<std::string> &strings)
{
    std::vector<char *> list;
    list.reserve(strings.size() + 1);
    for (std::string &one : strings)
        list.push_back(one.data());
    list.push_back(nullptr);
    return list;
}

void allow_descriptors(int floor)
{
    rlimit limit;
    if (sys::failed(sys::call(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &limit)))
        return;
    const auto needed = static_cast<rlim_t>(floor) + max_slots;
    if (limit.rlim_cur < needed) {
        limit.rlim_cur = needed < limit.rlim_max ? needed : limit.rlim_max;
        sys::call(SYS_prlimit64, 0, RLIMIT_NOFILE, &limit, nullptr);
    }
}

} // namespace

struct Nursery::Prepared {
    std::vector<char *> argv, envp;
    std::vector<int> moved; // room for the descriptors while they are moved
};

Nursery::Nursery() = default;

Nursery::~Nursery()
{
    if (births_ != nullptr)
        munmap(births_, list_.size() * sizeof(Birth));
}

size_t Nursery::add(Newborn child)
{
    list_.push_back(std::move(child));
    return list_.size() - 1;
}

bool Nursery::prepare()
{
    prepared_.resize(list_.size());
    born_in_ = sessions_at_birth();
    for (size_t i = 0; i < list_.size(); i++) {
        prepared_[i].argv = pointers(list_[i].arguments);
        prepared_[i].envp = pointers(list_[i].environment);
        prepared_[i].moved.resize(list_[i].descriptors.size());
    }
    void *shared = mmap(nullptr, list_.size() * sizeof(Birth), PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        return false;
    births_ = static_cast<Birth *>(shared);
    for (size_t i = 0; i < list_.size(); i++)
        new (&births_[i]) Birth{};
    return true;
}

// Not a copy that may have any id, or whose parent is a copy itself.
bool Nursery::is_made(size_t number) const
{
    const Newborn &own = list_[number];
    return !own.is_copy || (own.pid != 0 && !list_[static_cast<size_t>(own.parent)].is_copy);
}

bool Nursery::is_wished(pid_t pid) const
{
    return std::ranges::any_of(list_, [pid](const Newborn &one) {
        return one.pid == pid || std::ranges::find(one.threads, pid) != one.threads.end();
    });
}

// The new pid, 0 in the child, or −errno. Where any id will do, none is used that another needs.
long Nursery::make_one(size_t number)
{
    const Newborn &own = list_[number];
    pid_t *lost = own.parent == nobody && !own.foster ? lost_ : nullptr;
    // What only keeps the id of a copy shares nothing.
    const uint64_t shares = own.is_copy ? 0 : own.shares;
    if (own.pid != 0 || lost != nullptr)
        return make_(own.pid, ids_, lost, shares);
    for (;;) {
        const long pid = make_(0, ids_, nullptr, shares);
        if (pid == 0) {
            while (is_wished(static_cast<pid_t>(sys::call(SYS_getpid))))
                sys::call(SYS_exit_group, 0);
        }
        if (pid <= 0 || !is_wished(static_cast<pid_t>(pid)))
            return pid;
        while (sys::call(SYS_wait4, pid, nullptr, 0, nullptr) == -EINTR)
            ;
    }
}

void Nursery::make_children(int parent, bool before_session)
{
    for (size_t i = 0; i < list_.size(); i++) {
        if (list_[i].parent != parent || !is_made(i) || goes_first(i, parent) != before_session)
            continue;
        const long pid = make_one(i);
        if (pid == 0)
            live(i);
        tell(births_[i].pid, pid);
        if (pid < 0)
            tell(births_[i].grouped, pid); // so that no process waits for it in vain
    }
}

// Waits until all zombie children have ended, so that their SIGCHLD has been delivered.
void Nursery::await_zombies(int parent)
{
    for (size_t i = 0; i < list_.size(); i++) {
        const int pid = births_[i].pid.load(std::memory_order_acquire);
        if (list_[i].parent != parent || !list_[i].zombie || pid <= 0)
            continue;
        siginfo_t info;
        while (sys::call(SYS_waitid, P_PID, pid, &info, WEXITED | WNOWAIT, nullptr) == -EINTR)
            ;
    }
}

// Ends stand-ins, once their groups are joined and their children are made. 0, or −errno.
int Nursery::dismiss_stand_ins(int parent)
{
    for (size_t i = 0; i < list_.size(); i++) {
        if (list_[i].parent != parent || !list_[i].stand_in)
            continue;
        for (size_t k = 0; k < list_.size(); k++) {
            if (list_[k].group != static_cast<int>(i) || k == i || !is_made(k))
                continue;
            if (const int joined = await_word(births_[k].grouped); joined < 0)
                return joined;
        }
        if (const int made = await_word(births_[i].grouped); made < 0)
            return made;
        const int pid = births_[i].pid.load(std::memory_order_acquire);
        sys::call(SYS_kill, pid, SIGKILL);
        while (sys::call(SYS_wait4, pid, nullptr, 0, nullptr) == -EINTR)
            ;
        births_[i].pid.store(0);
    }
    return 0;
}

void Nursery::die_as(int wait_status)
{
    if (WIFEXITED(wait_status))
        sys::call(SYS_exit_group, WEXITSTATUS(wait_status));
    const int signal = WTERMSIG(wait_status);
    const rlimit none = {0, 0};
    sys::call(SYS_prlimit64, 0, RLIMIT_CORE, &none, nullptr);
    const uint64_t only = 1UL << (signal - 1);
    sys::call(SYS_rt_sigprocmask, SIG_UNBLOCK, &only, nullptr, 8);
    const struct {
        uint64_t handler, flags, restorer, mask;
    } standard = {};
    sys::call(SYS_rt_sigaction, signal, &standard, nullptr, 8);
    sys::call(SYS_kill, sys::call(SYS_getpid), signal);
    for (;;)
        sys::call(SYS_exit_group, 128 + signal);
}

// Runs in a new process, from its creation to execve.
void Nursery::live(size_t number)
{
    const auto self = static_cast<int>(number);
    Newborn &own = list_[number];
    const auto give_up = [&](long result) {
        tell(births_[number].grouped, result);
        for (;;)
            sys::call(SYS_exit_group, 127);
    };
    tell(births_[number].pid, sys::call(SYS_getpid)); // our parent may be gone before it can say so
    // A zombie's SIGCHLD must not stay pending for the restored program.
    const struct {
        uint64_t handler, flags, restorer, mask;
    } standard = {};
    const uint64_t child_signal = 1UL << (SIGCHLD - 1);
    sys::call(SYS_rt_sigaction, SIGCHLD, &standard, nullptr, 8);
    sys::call(SYS_rt_sigprocmask, SIG_UNBLOCK, &child_signal, nullptr, 8);

    make_children(self, true);
    long result = 0;
    if (own.session == self)
        result = sys::call(SYS_setsid);
    else if (own.group == self)
        result = sys::call(SYS_setpgid, 0, 0);
    // Before there are children: they inherit it.
    if (own.session == self && own.terminal >= 0 && !sys::failed(result))
        result = sys::call(SYS_ioctl, own.terminal, TIOCSCTTY, 0);
    if (sys::failed(result))
        give_up(result);
    if (own.session == self || own.group == self)
        tell(births_[number].grouped, 1);
    make_children(self, false);
    if (own.group != self && own.session != self && own.group != nobody) {
        const int leader = await_word(births_[own.group].grouped);
        if (leader < 0)
            give_up(leader);
        result = sys::call(SYS_setpgid, 0, births_[own.group].pid.load());
        if (sys::failed(result))
            give_up(result);
    }
    if (own.terminal >= 0 && own.foreground != nobody) {
        const int leader = await_word(births_[own.foreground].grouped);
        if (leader < 0)
            give_up(leader);
        const uint64_t only = 1UL << (SIGTTOU - 1);
        const int group = births_[own.foreground].pid.load();
        sys::call(SYS_rt_sigprocmask, SIG_BLOCK, &only, nullptr, 8);
        result = sys::call(SYS_ioctl, own.terminal, TIOCSPGRP, &group);
        sys::call(SYS_rt_sigprocmask, SIG_UNBLOCK, &only, nullptr, 8);
        if (sys::failed(result))
            give_up(result);
    }
    tell(births_[number].grouped, 1);
    if (own.zombie)
        die_as(own.wait_status);
    if (own.stand_in || own.foster || own.is_copy) {
        // The end of a pipe shows the end of the process that speaks through it.
        sys::call(SYS_close_range, 0, ~0U, 0);
        // A process that only keeps an id ends with its parent, which else would end it.
        if (own.is_copy) {
            sys::call(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
            if (sys::call(SYS_getppid) != births_[own.parent].pid.load())
                give_up(-ESRCH);
        }
        for (;;)
            sys::call(SYS_pause);
    }
    await_zombies(self);
    if (const int dismissed = dismiss_stand_ins(self); dismissed < 0)
        give_up(dismissed);

    // The target numbers collide with none of the program's; the caller's
    // descriptors may have any number, so they are first moved beyond the targets.
    allow_descriptors(own.floor);
    std::vector<int> &moved = prepared_[number].moved;
    const int count = static_cast<int>(moved.size());
    result = open_pidfds(own);
    if (!sys::failed(result))
        result = open_proc_files(own);
    for (int i = 0; i < count && !sys::failed(result); i++) {
        moved[i] = -1;
        if (own.descriptors[i] < 0)
            continue;
        result = sys::call(SYS_fcntl, own.descriptors[i], F_DUPFD, own.floor + count);
        moved[i] = static_cast<int>(result);
    }
    for (int i = 0; i < count && !sys::failed(result); i++) {
        if (moved[i] >= 0)
            result = sys::call(SYS_dup2, moved[i], own.floor + i);
    }
    if (!sys::failed(result))
        result = sys::call(SYS_close_range, own.floor + count, ~0U, CLOSE_RANGE_CLOEXEC);
    for (const int fd : kept_) {
        if (!sys::failed(result))
            result = sys::call(SYS_fcntl, fd, F_SETFD, 0);
    }
    if (!sys::failed(result)) {
        sys::call(SYS_personality, own.personality);
        const Prepared &words = prepared_[number];
        result = own.exe_fd >= 0
                     ? sys::call(SYS_execveat, own.exe_fd, "", words.argv.data(), words.envp.data(),
                                 AT_EMPTY_PATH)
                     : sys::call(SYS_execve, own.exe.c_str(), words.argv.data(), words.envp.data());
    }
    const Failure failed = {~0U, static_cast<int32_t>(-result), 0};
    sys::call(SYS_write, own.floor + own.report, &failed, sizeof(failed));
    for (;;)
        sys::call(SYS_exit_group, 127);
}

Error Nursery::failure(size_t number, const char *what, int error) const
{
    const pid_t pid = list_[number].pid;
    const bool seen = pid != 0 && sys::call(SYS_kill, pid, 0) != -ESRCH;
    if (error == EEXIST && seen)
        return in_use(pid);
    if (pid != 0 && births_[number].pid.load() < 0 && is_about_choosing(error))
        return not_chosen(pid, error);
    if ((error == EBUSY || error == EEXIST) && pid != 0)
        return Error(EBUSY, fmt::format("pid {} cannot be assigned: a process group or session has "
                                        "it here, or other processes take it first each time; use "
                                        "--pidns or --no-restore-pid for a new one",
                                        pid));
    return Error::from_errno(fmt::format("{} process {}", what, pid), error);
}

Result<void> Nursery::await()
{
    for (size_t i = 0; i < list_.size(); i++) {
        if (!is_made(i))
            continue;
        if (!list_[i].stand_in || list_[i].parent == nobody) {
            const int pid = await_word(births_[i].pid);
            if (pid < 0)
                return failure(i, "making", -pid);
        }
        const int grouped = await_word(births_[i].grouped);
        if (grouped < 0)
            return failure(i, "setting the session and group of", -grouped);
    }
    return {};
}

Result<std::vector<pid_t>> Nursery::make()
{
    if (!all_descend_from_us())
        return Error(EINVAL, "the image has a process that descends from itself");
    if (!prepare())
        return Error::from_errno("sharing memory", errno);
    make_children(nobody, false);
    Result<void> all = await();
    if (const int dismissed = all ? dismiss_stand_ins(nobody) : 0; dismissed < 0)
        all = Error::from_errno("making process groups", -dismissed);
    if (!all) {
        end_all();
        return all.error();
    }
    std::vector<pid_t> pids;
    for (size_t i = 0; i < list_.size(); i++)
        pids.push_back(births_[i].pid.load());
    return pids;
}

bool Nursery::descends_from(int number, int ancestor) const
{
    for (int parent = list_[static_cast<size_t>(number)].parent; parent != nobody;
         parent = list_[static_cast<size_t>(parent)].parent) {
        if (parent == ancestor)
            return true;
    }
    return false;
}

Result<void> Nursery::leave_orphans()
{
    for (size_t f = 0; f < list_.size(); f++) {
        const int foster = births_[f].pid.load();
        if (!list_[f].foster || foster <= 0)
            continue;
        for (size_t i = 0; i < list_.size(); i++) {
            const int pid = births_[i].pid.load();
            if (pid <= 0 || !descends_from(static_cast<int>(i), static_cast<int>(f)))
                continue;
            Fd one(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
            if (!one)
                return Error::from_errno(fmt::format("pidfd_open of process {}", pid), errno);
            left_.push_back(std::move(one));
        }
        int subreaper = 0;
        prctl(PR_GET_CHILD_SUBREAPER, &subreaper);
        prctl(PR_SET_CHILD_SUBREAPER, 0);
        kill(foster, SIGKILL);
        while (waitpid(foster, nullptr, 0) < 0 && errno == EINTR)
            ;
        prctl(PR_SET_CHILD_SUBREAPER, subreaper);
        births_[f].pid.store(0);
    }
    return {};
}

// Another parent reaps them; this only waits until they have ended.
void Nursery::end_left()
{
    for (const Fd &one : left_)
        syscall(SYS_pidfd_send_signal, one.get(), SIGKILL, nullptr, 0);
    for (const Fd &one : left_) {
        pollfd ended = {one.get(), POLLIN, 0};
        while (poll(&ended, 1, -1) < 0 && errno == EINTR)
            ;
    }
    left_.clear();
}

void Nursery::end_all()
{
    end_left();
    if (births_ == nullptr)
        return; // none was made
    // A process whose parent is gone becomes our child, and keeps its pid until we
    // reap it: no pid can mean another process meanwhile. A failed process leaves
    // its children to us: one that is made during this pass is found in the next.
    bool found = true;
    while (found) {
        found = false;
        for (size_t i = 0; i < list_.size(); i++) {
            const int pid = births_[i].pid.load(std::memory_order_acquire);
            if (pid <= 0)
                continue;
            if (list_[i].parent == nobody && lost_ != nullptr) {
                kill(pid, SIGKILL); // our own parent reaps it
                *lost_ = pid;
                births_[i].pid.store(0);
                continue;
            }
            siginfo_t info = {};
            if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT | WNOHANG) != 0)
                continue; // not our child (yet), or gone
            found = true;
            kill(pid, SIGKILL);
            while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR)
                ;
        }
    }
}

} // namespace cryo::restore
