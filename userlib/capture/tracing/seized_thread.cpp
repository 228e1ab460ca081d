// SPDX-License-Identifier: Apache-2.0
#include "capture/tracing/seized_thread.hpp"

#include "base/clock.hpp"
#include "capture/tracing/way_back.hpp"
#include "look/members.hpp"
#include "look/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <elf.h>
#include <fmt/format.h>
#include <fstream>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace cryo::capture {

namespace {

constexpr size_t most_vector_state = 64 << 10;
constexpr uint64_t time_to_stop_ns = 200'000'000;

int yama_scope()
{
    int scope = 0;
    std::ifstream("/proc/sys/kernel/yama/ptrace_scope") >> scope;
    return scope;
}

// Waiting has no time limit of its own, and no signal may come for it here.
void pause_shortly()
{
    constexpr timespec pause = {0, 200'000};
    nanosleep(&pause, nullptr);
}

bool has_thread_ended(pid_t pid, pid_t tid)
{
    const Result<std::string> status = Proc(pid).read(fmt::format("task/{}/status", tid));
    const std::string_view state = status ? field(*status, "State") : std::string_view();
    return state.empty() || state.front() == 'Z' || state.front() == 'X';
}

} // namespace

// What is ignored waits as well while it is blocked.
bool is_asked_to_end()
{
    sigset_t waiting;
    if (sigpending(&waiting) != 0)
        return false;
    for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGHUP, SIGALRM}) {
        struct sigaction action;
        if (sigismember(&waiting, signal) == 1 && sigaction(signal, nullptr, &action) == 0 &&
            action.sa_handler != SIG_IGN)
            return true;
    }
    return false;
}

Error asked_to_end()
{
    return {EINTR, "a signal has ended this command; the program goes on"};
}

Error may_not_trace(pid_t pid, int error)
{
    const std::string who = fmt::format("process {}: Cryo may not enter it", pid);
    if (error == ESRCH || has_ended(pid)) // of one that ends, the kernel says EPERM
        return {ESRCH, fmt::format("no process {}", pid)};
    if (error != EPERM)
        return Error::from_errno(who, error);
    const int scope = yama_scope();
    if (scope == 3)
        return {EPERM, who + ": this system lets nobody trace processes (kernel.yama.ptrace_scope "
                             "is 3, until it is booted anew); start the program under cr_run"};
    if (scope == 2 && geteuid() != 0)
        return {EPERM, who + ": this system lets only root trace processes "
                             "(kernel.yama.ptrace_scope is 2); let root save it, or start the "
                             "program under cr_run"};
    if (scope == 1 && geteuid() != 0)
        return {EPERM, who +
                           ": this system lets a user trace only children of the tracer "
                           "(kernel.yama.ptrace_scope is 1); let root save it, set it to 0 (sysctl "
                           "kernel.yama.ptrace_scope=0), or start the program under cr_run"};
    return {EPERM, who + ": it is not dumpable (prctl, a program that its user may not read), has "
                         "capabilities that this command lacks, or the system restricts ptrace "
                         "(a container's filter); let root save it, or start it under cr_run"};
}

SeizedThread::SeizedThread(SeizedThread &&other) noexcept
    : pid_(other.pid_), tid_(std::exchange(other.tid_, 0)), deadline_ns_(other.deadline_ns_),
      stands_(std::exchange(other.stands_, false)), insists_(other.insists_), signal_(other.signal_)
{}

SeizedThread::~SeizedThread()
{
    let_go();
}

// One that does not stand cannot be let go: the end of this process does it.
void SeizedThread::let_go()
{
    if (tid_ != 0 && stands_)
        ptrace(PTRACE_DETACH, tid_, nullptr, reinterpret_cast<void *>(signal_));
    tid_ = 0;
}

Error SeizedThread::failed(const char *what) const
{
    if (errno == ESRCH)
        return {ESRCH, fmt::format("process {} ended, or executed another program, while Cryo "
                                   "entered it",
                                   pid_)};
    return Error::from_errno(fmt::format("process {}: {}", pid_, what), errno);
}

Result<SeizedThread> SeizedThread::seize(pid_t pid, pid_t tid, uint64_t deadline_ns)
{
    SeizedThread thread(pid, tid, deadline_ns);
    if (ptrace(PTRACE_SEIZE, tid, nullptr, PTRACE_O_TRACESYSGOOD) != 0) {
        const int error = errno;
        thread.tid_ = 0;
        return may_not_trace(pid, has_thread_ended(pid, tid) ? ESRCH : error);
    }
    if (ptrace(PTRACE_INTERRUPT, tid, nullptr, nullptr) != 0)
        return thread.failed("it cannot be stopped");
    for (;;) {
        Result<Stop> stop = thread.await();
        if (!stop)
            return stop.error();
        if (stop->kind == Kind::event)
            return thread;
        if (Result<void> in_time = thread.check_time(); !in_time)
            return in_time.error();
        thread.go(PTRACE_CONT, stop->signal);
    }
}

void SeizedThread::go(int request, int signal)
{
    stands_ = ptrace(static_cast<__ptrace_request>(request), tid_, nullptr,
                     reinterpret_cast<void *>(static_cast<long>(signal))) != 0;
    signal_ = 0;
}

Error SeizedThread::too_late() const
{
    return {EBUSY, fmt::format("process {}: thread {} has not stopped for Cryo: it waits in the "
                               "kernel (for a disk, a file server, a child made by vfork), or gets "
                               "signals all the time; try again when that is over",
                               pid_, tid_)};
}

// Of a thread that stands, so that it can be let go.
Result<void> SeizedThread::check_time() const
{
    if (now_ns() > deadline_ns_)
        return too_late();
    if (!insists_ && is_asked_to_end())
        return asked_to_end();
    return {};
}

Result<SeizedThread::Stop> SeizedThread::await()
{
    int status = 0;
    const uint64_t begun = now_ns();
    for (;;) {
        const pid_t got = waitpid(tid_, &status, __WALL | WNOHANG);
        if (got == tid_)
            break;
        if (got < 0 && errno != EINTR) {
            errno = ESRCH;
            return failed("");
        }
        if (now_ns() > deadline_ns_)
            return too_late();
        // A moment later it may stop, and then nothing of its calls is lost.
        if (!insists_ && now_ns() - begun > time_to_stop_ns && is_asked_to_end())
            return asked_to_end();
        pause_shortly();
    }
    if (!WIFSTOPPED(status)) {
        tid_ = 0;
        errno = ESRCH;
        return failed("");
    }
    stands_ = true;
    signal_ = 0;
    if (status >> 16 == PTRACE_EVENT_STOP)
        return Stop{Kind::event, 0};
    if (WSTOPSIG(status) == (SIGTRAP | 0x80))
        return Stop{Kind::call, 0};
    signal_ = WSTOPSIG(status);
    return Stop{Kind::signal, signal_};
}

Result<void> SeizedThread::come_to_rest()
{
    if (ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0)
        return failed("it cannot be stopped");
    for (int signal = 0;;) {
        go(PTRACE_CONT, signal);
        Result<Stop> stop = await();
        if (!stop)
            return stop.error();
        if (stop->kind == Kind::event)
            return {};
        signal = stop->signal;
        if (Result<void> in_time = check_time(); !in_time)
            return in_time;
    }
}

Result<user_regs_struct> SeizedThread::registers() const
{
    user_regs_struct registers;
    if (ptrace(PTRACE_GETREGS, tid_, nullptr, &registers) != 0)
        return failed("its registers");
    return registers;
}

Result<void> SeizedThread::set_registers(const user_regs_struct &registers) const
{
    if (ptrace(PTRACE_SETREGS, tid_, nullptr, &registers) != 0)
        return failed("its registers");
    return {};
}

Result<std::vector<char>> SeizedThread::vector_state() const
{
    std::vector<char> state(most_vector_state);
    iovec part = {state.data(), state.size()};
    if (ptrace(PTRACE_GETREGSET, tid_, NT_X86_XSTATE, &part) != 0)
        return failed("its vector registers");
    state.resize(part.iov_len);
    return state;
}

Result<void> SeizedThread::set_vector_state(std::vector<char> &state) const
{
    iovec part = {state.data(), state.size()};
    if (ptrace(PTRACE_SETREGSET, tid_, NT_X86_XSTATE, &part) != 0)
        return failed("its vector registers");
    return {};
}

Result<uint64_t> SeizedThread::mask() const
{
    uint64_t mask = 0;
    if (ptrace(PTRACE_GETSIGMASK, tid_, sizeof(mask), &mask) != 0)
        return failed("its blocked signals");
    return mask;
}

Result<void> SeizedThread::set_mask(uint64_t mask) const
{
    if (ptrace(PTRACE_SETSIGMASK, tid_, sizeof(mask), &mask) != 0)
        return failed("its blocked signals");
    return {};
}

bool SeizedThread::signal_waits(uint64_t mask) const
{
    const Result<std::string> status = Proc(pid_).read(fmt::format("task/{}/status", tid_));
    std::string_view own = status ? field(*status, "SigPnd") : std::string_view();
    std::string_view shared = status ? field(*status, "ShdPnd") : std::string_view();
    std::string_view caught = status ? field(*status, "SigCgt") : std::string_view();
    return ((take_number(own, 16) | take_number(shared, 16)) & take_number(caught, 16) & ~mask) !=
           0;
}

Result<void> SeizedThread::hide_stop() const
{
    const Result<uint64_t> blocked = mask();
    Result<user_regs_struct> found = registers();
    if (!blocked || !found)
        return !blocked ? blocked.error() : found.error();
    hide_interruption(*found, signal_waits(*blocked));
    return set_registers(*found);
}

} // namespace cryo::capture
