// SPDX-License-Identifier: Apache-2.0
#include "capture/member/member_process.hpp"

#include "capture/process/unfinished_restart.hpp"
#include "capture/session/open_door.hpp"
#include "capture/session/own_filters.hpp"
#include "libcr.h"
#include "look/back_stopped.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
#include <utility>

namespace cryo::capture {

namespace {

// Whether a process that does not listen yet has Cryo's library, or will have it.
bool will_listen(const Proc &proc)
{
    Result<std::string> maps = proc.read("maps");
    // An exiting process has no memory any more: the caller notices that.
    if (!maps || maps->empty() || maps->find("/libcr") != std::string::npos)
        return true;
    // cr_run itself, about to execute the program; or a process being restored by cr_restart.
    if (runs_program(proc, "/cr_run") || is_being_restarted(proc))
        return true;
    Result<std::string> environment = proc.read("environ");
    if (environment && environment->empty()) {
        // During exec there is no environment yet.
        if (Result<Relation> now = relation_of(proc.pid()); !now || now->executing)
            return true;
        environment = proc.read("environ");
    }
    if (environment && environment->find("libcr_run.so") != std::string::npos)
        return true;
    // The shell of a system() that is about to execute itself (agent/interposed_shell.cpp).
    const Result<std::string> command = proc.read("cmdline");
    if (command && command->find("export LD_PRELOAD=") != std::string::npos &&
        command->find("/libcr_") != std::string::npos)
        return true;
    // A process that has exited since has no memory for this to be read from.
    maps = proc.read("maps");
    return !maps || maps->empty();
}

// An error is reported later, perhaps by another thread.
Result<Fd> handle_of(pid_t pid)
{
    Fd handle(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
    if (!handle)
        return Error::from_errno(fmt::format("a handle of process {}", pid), errno);
    return handle;
}

} // namespace

MemberProcess::MemberProcess(const Relation &relation, Turn turn, const Common &common)
    : relation_(relation), proc_(relation.pid), common_(common), turn_(std::move(turn)),
      handle_(handle_of(relation.pid)), deafness_(relation.pid)
{}

// What fails here fails in enter() as well. An early look is at the memory as it was saved.
void MemberProcess::find_agent()
{
    if (!stopped_ && has_come_back_stopped(proc_) && !finish_restart(proc_))
        return;
    if (Result<AgentDoor> door = AgentDoor::find(relation_.pid); door)
        door_.emplace(std::move(*door));
}

// A process that was made by fork, or executed another program, a moment ago may not listen yet, so
// this retries for a while.
Result<void> MemberProcess::enter()
{
    const pid_t pid = relation_.pid;
    if (!handle_)
        return handle_.error();
    const uint64_t begun = now_ns();
    for (;;) {
        const Result<Relation> now = relation_of(pid);
        if (!now || now->zombie || now->started != relation_.started)
            return Error(ESRCH, fmt::format("no process {}", pid));
        if (now->stopped && now->traced && !stopped_)
            return Error(ENOTSUP,
                         fmt::format("process {} is stopped by a debugger: continue it", pid));
        if (!stopped_ && has_come_back_stopped(proc_)) {
            if (Result<void> finished = finish_restart(proc_); !finished)
                return finished;
            door_.reset();
        }
        if (!door_)
            find_agent();
        if (door_ && !judged_) { // before it is held: only one may trace it
            if (Result<void> judged = judge_filters(proc_); !judged)
                return judged;
            judged_ = true;
        }
        if (now->stopped && !stopped_) {
            Result<Stopped> held = Stopped::hold(pid, AgentDoor::signal_of(proc_),
                                                 std::max(common_.silence_ns, first_answer_ns));
            if (!held)
                return held.error();
            stopped_.emplace(std::move(*held));
            if (!has_open_door(proc_)) {
                if (Result<void> led = stopped_->lead_to_door(); !led)
                    return led;
                door_.reset();
            }
        }
        Result<AgentDoor> door = door_ ? std::move(*door_) : AgentDoor::find(pid);
        door_.reset();
        Result<AgentSession> session =
            door ? AgentSession::enter(std::move(*door)) : Result<AgentSession>(door.error());
        // Otherwise the pid may have been reused, so that the connection leads to another process
        // than the one that was looked at.
        pollfd ended = {handle_->get(), POLLIN, 0};
        if (session && poll(&ended, 1, 0) == 0) {
            agent_.emplace(std::move(*session));
            agent_->set_deadline(common_.deadline);
            agent_->set_silence(common_.silence_ns);
            return {};
        }
        // A process that has ended meanwhile also fails the permission checks, and so does one that
        // is about to: its memory is gone, and its files in /proc are root's, before it is a
        // zombie.
        if (const Result<Relation> after = relation_of(pid); !after || after->zombie)
            continue;
        if (!session && has_ended(pid)) {
            if (now_ns() - begun > first_answer_ns)
                return Error(EBUSY,
                             fmt::format("process {} is ending, and waits in the kernel (for "
                                         "a disk, a file server); try again when that is "
                                         "over",
                                         pid));
            usleep(1000);
            continue;
        }
        if (session)
            return Error(ESRCH, fmt::format("no process {}", pid));
        if (session.error().code() != ESRCH || now_ns() - begun > first_answer_ns ||
            !will_listen(proc_))
            return Error(session.error().code() == ESRCH ? CR_ENOSUPPORT : session.error().code(),
                         session.error().text(), session.error().reason());
        usleep(1000);
    }
}

void MemberProcess::adopt(Fd connection)
{
    agent_.emplace(AgentSession::adopt(std::move(connection), relation_.pid));
    agent_->set_deadline(common_.deadline);
    agent_->set_silence(common_.silence_ns);
}

Result<void> MemberProcess::ask_to_prepare(const agent::RequestInfo &request)
{
    asked_since_ = now_ns();
    Result<void> asked = agent_->ask_to_prepare(request);
    return asked && stopped_ ? stopped_->lead() : asked;
}

// Where the turn is not ours, another checkpoint may stop the process at this moment.
bool MemberProcess::is_deaf()
{
    return deafness_.look(now_ns()) && turn_.fd() >= 0; // no other checkpoint is at work
}

Error MemberProcess::silent() const
{
    return AgentDoor::silent(proc_, deafness_.reason() == Deafness::Reason::takes);
}

Result<void> MemberProcess::ask_to_resume(int why, int signal)
{
    if (stopped_)
        stopped_->ring();
    return agent_->ask_to_resume(why, signal);
}

// The first process of a pid namespace gets no such signal from itself; and a thread held by ptrace
// takes none before it is released.
bool MemberProcess::sends_itself_signals() const
{
    const Result<std::string> status = proc_.read("status");
    std::string_view ids = status ? field(*status, "NSpid") : std::string_view();
    uint64_t own = 0;
    while (!ids.empty())
        own = take_number(ids);
    return own > 1 && !stopped_ && agent_->sends_itself_signals();
}

// A member that has been killed meanwhile cannot answer, and need not.
Result<void> MemberProcess::end_with(int signal)
{
    Result<void> asked = ask_to_resume(0, signal);
    return asked || has_ended(relation_.pid) ? Result<void>() : asked;
}

Result<void> MemberProcess::await_end()
{
    Result<void> ended = await_go_on();
    return ended || has_ended(relation_.pid) ? Result<void>() : ended;
}

// The first thread of a process may have ended alone: it has no memory, either.
bool MemberProcess::is_ending() const
{
    pollfd ended = {handle_ ? handle_->get() : -1, POLLIN, 0};
    if (poll(&ended, 1, 0) == 1)
        return true;
    const Result<std::string> status = proc_.read("status");
    if (!status || status->empty())
        return true;
    return field(*status, "CoreDumping").starts_with('1') ||
           (field(*status, "VmSize").empty() && !field(*status, "State").starts_with('Z'));
}

void MemberProcess::let_go()
{
    if (stopped_ && ask_to_resume(0, 0))
        static_cast<void>(await_go_on());
    else
        agent_->let_go();
}

Result<void> MemberProcess::await_go_on()
{
    const uint64_t begun = now_ns();
    while (stopped_ && !agent_->has_answer() && now_ns() - begun < common_.silence_ns) {
        if (Result<void> early = check_deadline(common_.deadline); !early)
            return early;
        stopped_->see_out();
    }
    // A process that hears nothing was not stopped, and answers nobody.
    const bool is_asked = agent_->was_heard() || !deafness_.seems_deaf();
    Result<void> resumed = is_asked ? agent_->await_resumed() : Result<void>();
    if (stopped_ && resumed)
        resumed = stopped_->put_back();
    stopped_.reset();
    if (!has_callbacks_)
        turn_ = Turn();
    return resumed;
}

Result<void> MemberProcess::callbacks_done()
{
    Result<void> done = has_callbacks_ ? agent_->callbacks_done() : Result<void>();
    turn_ = Turn();
    return done;
}

Result<uint64_t> MemberProcess::await_parked()
{
    const uint64_t begun = now_ns();
    while (stopped_ && !agent_->has_answer() && now_ns() - begun < common_.silence_ns) {
        if (Result<void> followed = stopped_->follow(); !followed)
            return followed.error();
    }
    return agent_->stop();
}

Result<void> MemberProcess::await_stop()
{
    Result<uint64_t> threads = await_parked();
    if (!threads && threads.error().code() == EPERM && agent_->prove_right()) {
        if (Result<void> asked = agent_->ask_to_stop(); !asked)
            return asked;
        threads = await_parked();
    }
    if (!threads)
        return threads.error();
    threads_ = *threads;
    return {};
}

// The first process of a pid namespace only gets signals that it handles; SIGKILL and SIGSTOP only
// from outside. If we are inside, its pid is 1 for us as well.
Result<void> MemberProcess::check_takes(int signal) const
{
    const pid_t pid = relation_.pid;
    const Result<std::string> status = signal == 0 ? std::string() : proc_.read("status");
    if (!status || status->empty())
        return {};
    std::string_view ids = field(*status, "NSpid"), caught = field(*status, "SigCgt");
    uint64_t own = 0;
    while (!ids.empty())
        own = take_number(ids);
    const bool handled = (take_number(caught, 16) >> (signal - 1) & 1) != 0;
    const bool forced = pid != 1 && (signal == SIGKILL || signal == SIGSTOP);
    if (own == 1 && !handled && !forced)
        return Error(ENOTSUP,
                     fmt::format("process {}: as the first process of its pid namespace it does "
                                 "not take signal {} from Cryo: save it without a signal, and then "
                                 "send SIGKILL from outside the namespace",
                                 pid, signal));
    return {};
}

void MemberProcess::send_signal(int signal) const
{
    if (stopped_ && signal == SIGSTOP)
        return; // it is stopped already
    if (handle_)
        syscall(SYS_pidfd_send_signal, handle_->get(), signal, nullptr, 0);
}

// The first thread to stop has told all others to stop before they return to the program; the
// requester of SIGSTOP expects to find all of them stopped.
void MemberProcess::await_standstill() const
{
    if (stopped_)
        return;
    const uint64_t begun = now_ns();
    while (now_ns() - begun < first_answer_ns) {
        Result<std::vector<int>> threads = proc_.numbers("task");
        if (!threads)
            return; // it has been killed
        const bool all = std::ranges::all_of(*threads, [](int tid) {
            Result<Relation> now = relation_of(tid);
            return !now || now->stopped || now->ended || now->of_kernel;
        });
        if (all)
            return;
        const timespec pause = {0, 200'000};
        nanosleep(&pause, nullptr);
    }
}

} // namespace cryo::capture
