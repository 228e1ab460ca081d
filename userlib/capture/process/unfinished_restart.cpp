// SPDX-License-Identifier: Apache-2.0
#include "capture/process/unfinished_restart.hpp"

#include "base/clock.hpp"
#include "capture/session/agent_door.hpp"
#include "capture/session/open_door.hpp"
#include "capture/session/patience.hpp"
#include "look/members.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fmt/format.h>
#include <iterator>
#include <map>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

namespace cryo::capture {

namespace {

constexpr uint64_t limit_ns = default_silence_ns;
constexpr uint64_t moment_ns = 1'000'000'000; // a thread that may be stopped stops by then

constexpr uint64_t bit(int signal)
{
    return uint64_t(1) << (signal - 1);
}

// The restorer and the agent block all, but perhaps for a signal of the terminal that stops them.
bool is_before_program(uint64_t mask)
{
    constexpr uint64_t stops = bit(SIGSTOP) | bit(SIGTSTP) | bit(SIGTTIN) | bit(SIGTTOU);
    return (~mask & ~(bit(SIGKILL) | stops)) == 0;
}

void pause_shortly()
{
    constexpr timespec pause = {0, 100'000};
    nanosleep(&pause, nullptr);
}

class UnfinishedRestart
{
  public:
    explicit UnfinishedRestart(const Proc &proc) : proc_(proc) {}
    UnfinishedRestart(const UnfinishedRestart &) = delete;
    UnfinishedRestart &operator=(const UnfinishedRestart &) = delete;
    ~UnfinishedRestart();

    Result<void> finish();

  private:
    struct Thread {
        bool stands = false; // in a ptrace stop
        bool is_out = false; // about to return to the program
        int signal = 0;      // the one that it stands at
    };
    using Threads = std::map<pid_t, Thread>;

    Result<void> seize();
    Result<void> hold(pid_t tid, Thread &thread);
    bool look(Threads::iterator &at);
    bool is_out(pid_t tid) const;
    void let_go();
    Error refused(pid_t tid, int error) const;
    Error late() const;

    const Proc &proc_;
    Threads threads_;
};

// A thread that does not stand is let go by the end of this process.
UnfinishedRestart::~UnfinishedRestart()
{
    for (auto &[tid, thread] : threads_) {
        if (!thread.stands)
            ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr);
    }
    const uint64_t begun = now_ns();
    for (auto at = threads_.begin(); at != threads_.end() && now_ns() - begun < moment_ns;) {
        if (at->second.stands)
            ++at;
        else if (!look(at))
            pause_shortly();
    }
    let_go();
}

Error UnfinishedRestart::refused(pid_t tid, int error) const
{
    if (error == EPERM)
        return Error(ENOTSUP,
                     fmt::format("process {} was brought back as a stopped one and not continued "
                                 "since, and this system restricts ptrace, which is needed to save "
                                 "it so: continue it with kill -CONT {}",
                                 proc_.pid(), proc_.pid()));
    return Error::from_errno(fmt::format("holding thread {}", tid), error);
}

Error UnfinishedRestart::late() const
{
    return Error(EBUSY, fmt::format("process {} was brought back as a stopped one, and does not "
                                    "come to where it was when it was saved: continue it with "
                                    "kill -CONT {}",
                                    proc_.pid(), proc_.pid()));
}

// Looks whether it has stopped, or ended; then `at` is the next one.
bool UnfinishedRestart::look(Threads::iterator &at)
{
    int status = 0;
    const pid_t got = waitpid(at->first, &status, __WALL | WNOHANG);
    if (got == 0 || (got < 0 && errno == EINTR))
        return false;
    if (got < 0 || !WIFSTOPPED(status)) {
        at = threads_.erase(at);
        return true;
    }
    const bool is_call = WSTOPSIG(status) == (SIGTRAP | 0x80);
    at->second.stands = true;
    at->second.signal = is_call || status >> 16 != 0 ? 0 : WSTOPSIG(status);
    return true;
}

Result<void> UnfinishedRestart::hold(pid_t tid, Thread &thread)
{
    if (ptrace(PTRACE_SEIZE, tid, nullptr, PTRACE_O_TRACESYSGOOD) != 0)
        return refused(tid, errno);
    if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0)
        return refused(tid, errno);
    uint64_t mask = 0;
    const uint64_t begun = now_ns();
    for (auto at = threads_.find(tid); !look(at); pause_shortly()) {
        if (now_ns() - begun > moment_ns)
            return late();
    }
    // Nothing of the program may run.
    if (!threads_.contains(tid))
        return {};
    if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(mask), &mask) != 0)
        return refused(tid, errno);
    thread.is_out = !is_before_program(mask);
    return {};
}

Result<void> UnfinishedRestart::seize()
{
    Result<std::vector<int>> all = proc_.numbers("task");
    if (!all)
        return Error(ESRCH, fmt::format("no process {}", proc_.pid()));
    for (const pid_t tid : *all) {
        const Result<Relation> now = relation_of(tid);
        if (!now || now->of_kernel || now->ended)
            continue;
        if (Result<void> held = hold(tid, threads_[tid]); !held)
            return held;
    }
    return {};
}

// The handler's return to the program is what unblocks the checkpoint signal. By then the agent
// listens, and has told which one that is.
bool UnfinishedRestart::is_out(pid_t tid) const
{
    uint64_t mask = 0;
    return ptrace(PTRACE_GETSIGMASK, tid, sizeof(mask), &mask) == 0 && !is_before_program(mask) &&
           has_open_door(proc_) && (mask & bit(AgentDoor::signal_of(proc_))) == 0;
}

// Each system call stops a thread when it begins and when it ends: the return from the handler is
// one.
Result<void> UnfinishedRestart::finish()
{
    if (Result<void> seized = seize(); !seized)
        return seized;
    const uint64_t begun = now_ns();
    for (;;) {
        bool all_out = true;
        bool any_news = false;
        for (auto at = threads_.begin(); at != threads_.end();) {
            Thread &thread = at->second;
            if (thread.stands)
                thread.is_out = thread.is_out || is_out(at->first);
            if (thread.stands && !thread.is_out &&
                ptrace(PTRACE_SYSCALL, at->first, nullptr, static_cast<long>(thread.signal)) == 0)
                thread.stands = false;
            all_out = all_out && thread.is_out;
            const auto next = std::next(at);
            any_news = (!thread.is_out && look(at)) || any_news;
            at = next;
        }
        if (all_out)
            break;
        if (now_ns() - begun > limit_ns)
            return late();
        if (!any_news)
            pause_shortly();
    }
    if (threads_.empty())
        return Error(ESRCH, fmt::format("no process {}", proc_.pid()));
    let_go();
    return {};
}

// The threads run in the kernel for a moment before they are stopped again.
void UnfinishedRestart::let_go()
{
    for (const auto &[tid, thread] : threads_) {
        if (thread.stands)
            ptrace(PTRACE_DETACH, tid, nullptr, static_cast<long>(thread.signal));
    }
    const auto stands = [](const auto &entry) {
        const Result<Relation> now = relation_of(entry.first);
        return !now || now->stopped || now->ended;
    };
    const uint64_t begun = now_ns();
    while (!std::ranges::all_of(threads_, stands) && now_ns() - begun < moment_ns)
        pause_shortly();
    threads_.clear();
}

} // namespace

Result<void> finish_restart(const Proc &proc)
{
    return UnfinishedRestart(proc).finish();
}

} // namespace cryo::capture
