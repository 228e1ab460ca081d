// SPDX-License-Identifier: Apache-2.0
#include "capture/attach/attach.hpp"

#include "base/clock.hpp"
#include "capture/attach/agent_library.hpp"
#include "capture/attach/attachable.hpp"
#include "capture/attach/checkpoint_signal.hpp"
#include "capture/attach/mapping_in.hpp"
#include "capture/gather/bystanders.hpp"
#include "capture/session/agent_door.hpp"
#include "capture/session/enterable.hpp"
#include "capture/session/open_door.hpp"
#include "capture/tracing/seized_thread.hpp"
#include "look/auxiliary.hpp"
#include "look/back_stopped.hpp"
#include "look/members.hpp"
#include "protocol/attached.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <elf.h>
#include <fmt/format.h>
#include <optional>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>
#include <vector>

namespace cryo::capture {

namespace {

constexpr uint64_t time_for_each_ns = 30'000'000'000;

class SignalsBlocked
{
  public:
    SignalsBlocked()
    {
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_SETMASK, &all, &before_);
    }
    ~SignalsBlocked() { sigprocmask(SIG_SETMASK, &before_, nullptr); }
    SignalsBlocked(const SignalsBlocked &) = delete;
    SignalsBlocked &operator=(const SignalsBlocked &) = delete;

  private:
    sigset_t before_;
};

// A program to enter. The handle tells whether its number is still its own.
struct Target {
    pid_t pid;
    Fd handle;
    bool is_new; // no agent of ours listens there
};

bool has_ended_since(const Target &target)
{
    pollfd look = {target.handle.get(), POLLIN, 0};
    return poll(&look, 1, 0) != 0;
}

// The agent that cr_run preloads is there, or will be in a moment; why it does not answer is found
// out by the checkpoint.
bool is_of_cr_run(const Proc &proc)
{
    const Result<std::string> maps = proc.read("maps");
    const auto has = [&](std::string_view name) {
        return maps && maps->find(name) != std::string::npos;
    };
    return was_run_by_cr_run(proc) || has("/libcr_run.so") || has("/libcr_omit.so") ||
           has("/libcr.so");
}

bool catches(const Proc &proc, int signal)
{
    const Result<std::string> status = proc.read("status");
    std::string_view caught = status ? field(*status, "SigCgt") : std::string_view();
    return (take_number(caught, 16) >> (signal - 1) & 1) != 0;
}

// None: there is nothing to do.
Result<std::optional<Target>> target_of(const Relation &relation, const AgentLibrary &library)
{
    const pid_t pid = relation.pid;
    const Proc proc(pid);
    Target target = {pid, Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))), true};
    if (const Result<Relation> now = relation_of(pid);
        !target.handle || !now || now->started != relation.started)
        return std::optional<Target>();
    if (has_open_door(proc) && catches(proc, AgentDoor::signal_of(proc))) {
        if (!library.find_in(proc) || !blocks_for_good(proc, AgentDoor::signal_of(proc)))
            return std::optional<Target>();
        target.is_new = false;
        return std::optional<Target>(std::move(target));
    }
    // The agent of one that came back stopped listens when its restart is finished.
    if (is_of_cr_run(proc) || has_come_back_stopped(proc))
        return std::optional<Target>();
    if (Result<void> may = check_attachable(proc); !may)
        return may.error();
    return std::optional<Target>(std::move(target));
}

Result<std::vector<Target>> find_targets(pid_t id, const CheckpointOptions &options,
                                         const AgentLibrary &library)
{
    Result<std::vector<Relation>> members = members_of(options.scope, id);
    if (!members)
        return members.error();
    Bystanders bystanders(options);
    std::vector<Target> targets;
    for (const Relation &one : *members) {
        if (one.zombie || one.of_kernel || one.pid == getpid())
            continue;
        const Result<std::string> why_not = bystanders.why(one);
        if (!why_not)
            return why_not.error();
        if (!why_not->empty())
            continue;
        Result<std::optional<Target>> target = target_of(one, library);
        if (!target)
            return target.error();
        if (*target)
            targets.push_back(std::move(**target));
    }
    return targets;
}

Error not_begun(pid_t pid, int64_t result)
{
    if (result == -EBUSY)
        return {EBUSY, fmt::format("process {} is being saved already; try again later", pid)};
    if (result == -EMFILE)
        return {EBUSY,
                fmt::format("process {} has as many descriptors as it may have: let it close "
                            "some, or raise its limit (prlimit --pid {} --nofile=...)",
                            pid, pid)};
    return Error::from_errno(
        fmt::format("process {}: Cryo's agent cannot listen there (it needs a directory for its "
                    "socket: /dev/shm, /tmp or /var/tmp)",
                    pid),
        static_cast<int>(-result));
}

// Of a process whose first thread stands still: it may have executed another program, been ended
// and followed by another with its number, or taken a filter since it was looked at.
Result<void> check_stopped(const Target &target, const AgentLibrary &library,
                           const user_regs_struct &registers)
{
    const Proc proc(target.pid);
    if (has_ended_since(target))
        return Error(ESRCH, fmt::format("no process {}", target.pid));
    if (Result<void> may = check_attachable_by_tracer(proc); !may)
        return may;
    const std::optional<RemoteAddress> base = library.find_in(proc);
    const auto is_in_agent = [&](RemoteAddress address) {
        return base && address >= *base && address - *base <= library.span;
    };
    // On the one stack that the agent begins on.
    if (is_in_agent(RemoteAddress(registers.rsp)) || is_in_agent(RemoteAddress(registers.rip)))
        return Error(EBUSY,
                     fmt::format("process {} is still being entered, for a cr_checkpoint --attach "
                                 "that was ended: let it go on (kill -CONT {}) and try again",
                                 target.pid, target.pid));
    return {};
}

// False: the program has taken the signal for itself meanwhile.
Result<bool> enter(const Target &target, const AgentLibrary &library, int signal,
                   uint64_t deadline_ns)
{
    const Proc proc(target.pid);
    Result<Intrusion> inside = Intrusion::begin(
        target.pid, library.path,
        [&](const user_regs_struct &registers) {
            return check_stopped(target, library, registers);
        },
        deadline_ns);
    if (!inside)
        return inside.error();
    const std::optional<RemoteAddress> former = library.find_in(proc);
    close_left_open(*inside, library);
    Result<RemoteAddress> base =
        former ? Result<RemoteAddress>(*former) : map_library(*inside, library);
    if (!base)
        return base.error();
    agent::AttachOrder order;
    order.signal = signal;
    order.loader = auxiliary_value(proc, AT_BASE);
    inside->describe_rseq(order);
    Result<agent::AttachOrder> answer = inside->run(*base + library.entry, order);
    if (answer && answer->result == 0) {
        const Result<void> done = inside->finish(signal);
        return done ? Result<bool>(true) : Result<bool>(done.error());
    }
    if (!former && answer)
        unmap_library(*inside, library, *base);
    if (answer && answer->result == -EAGAIN)
        return false;
    return answer ? not_begun(target.pid, answer->result) : answer.error();
}

// The signal that it uses.
Result<int> enter_anyhow(const Target &target, const AgentLibrary &library, uint64_t deadline_ns)
{
    constexpr int tries = 10;
    for (int i = 0; i < tries; i++) {
        Result<int> signal = choose_signal(Proc(target.pid));
        if (!signal)
            return signal;
        const Result<bool> entered = enter(target, library, *signal, deadline_ns);
        if (!entered)
            return entered.error();
        if (*entered)
            return signal;
    }
    return Error(EBUSY, fmt::format("process {} takes each signal that Cryo chooses: try again",
                                    target.pid));
}

Error took_too_long()
{
    return {ETIME, "entering the program took longer than --time allows; the program goes on"};
}

} // namespace

Result<void> attach(pid_t id, const CheckpointOptions &options, const std::string &library,
                    const std::function<void(std::string_view)> &remark)
{
    const uint64_t end_ns = options.timeout_s != 0
                                ? now_ns() + options.timeout_s * uint64_t{1'000'000'000}
                                : ~uint64_t{0};
    const Result<AgentLibrary> agent = AgentLibrary::read(library);
    if (!agent)
        return agent.error();
    const SignalsBlocked blocked;
    const Result<std::vector<Target>> targets = find_targets(id, options, *agent);
    if (!targets)
        return targets.error();
    for (const Target &target : *targets) {
        const Proc proc(target.pid);
        if (is_asked_to_end())
            return asked_to_end();
        if (now_ns() >= end_ns)
            return took_too_long();
        const uint64_t deadline_ns = std::min(end_ns, now_ns() + time_for_each_ns);
        Result<int> signal =
            target.is_new ? enter_anyhow(target, *agent, deadline_ns) : AgentDoor::signal_of(proc);
        if (!signal)
            return now_ns() >= end_ns ? took_too_long() : signal.error();
        const auto hears = [&] { return !has_ended_since(target) && catches(proc, *signal); };
        if (Result<void> heard = unblock(proc, *signal, hears, deadline_ns); !heard)
            return now_ns() >= end_ns ? took_too_long() : heard.error();
        if (remark && target.is_new)
            remark(fmt::format("process {} has Cryo's agent now, which uses signal {}", target.pid,
                               *signal));
    }
    if (remark && targets->empty())
        remark("--attach: there is nothing to enter: all of them listen already");
    return {};
}

} // namespace cryo::capture
