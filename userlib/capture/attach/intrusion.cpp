// SPDX-License-Identifier: Apache-2.0
#include "capture/attach/intrusion.hpp"

#include "base/clock.hpp"
#include "capture/attach/remote_memory.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <elf.h>
#include <fmt/format.h>
#include <linux/rseq.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>
#include <utility>

namespace cryo::capture {

namespace {

constexpr uint64_t bit(int signal)
{
    return uint64_t{1} << (signal - 1);
}

// A fault of our code must not find its signal blocked: the kernel would reset the action of it.
constexpr uint64_t meanwhile =
    ~(bit(SIGSEGV) | bit(SIGBUS) | bit(SIGILL) | bit(SIGFPE) | bit(SIGTRAP) | bit(SIGSYS));

bool is_fault(int signal)
{
    return (meanwhile & bit(signal)) == 0;
}

constexpr unsigned long long user_code = 0x33; // the selector of 64-bit code
constexpr unsigned long long plain_flags = 0x202;

// Even if the time of the command is over, the thread gets back what is its own.
constexpr uint64_t time_to_finish_ns = 5'000'000'000;

// In a sequence that the kernel restarts when the thread is interrupted (rseq): our code in between
// would hide from the kernel that it was.
bool in_sequence(pid_t pid, const __ptrace_rseq_configuration &rseq)
{
    uint64_t sequence = 0;
    return rseq.rseq_abi_pointer != 0 &&
           read_memory(pid, RemoteAddress(rseq.rseq_abi_pointer + offsetof(struct rseq, rseq_cs)),
                       &sequence, sizeof(sequence)) &&
           sequence != 0;
}

bool has_shadow_stack(pid_t tid)
{
    constexpr int shadow_stack = 0x204; // NT_X86_SHSTK
    uint64_t pointer = 0;
    iovec part = {&pointer, sizeof(pointer)};
    return ptrace(PTRACE_GETREGSET, tid, shadow_stack, &part) == 0 && pointer != 0;
}

bool passes_its_calls(pid_t tid)
{
    constexpr int dispatch = 0x4211; // PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG
    struct {
        uint64_t mode, selector, offset, length;
    } found = {};
    return ptrace(static_cast<__ptrace_request>(dispatch), tid,
                  reinterpret_cast<void *>(sizeof(found)), &found) == 0 &&
           found.mode != 0;
}

} // namespace

Result<Intrusion> Intrusion::begin(pid_t pid, const std::string &path, const Check &check,
                                   uint64_t deadline_ns)
{
    if (path.size() > WayBack::longest_path)
        return Error(ENAMETOOLONG, path);
    constexpr int tries = 100; // sequences are a few instructions long
    for (int i = 0; i < tries; i++) {
        Result<SeizedThread> thread = SeizedThread::seize(pid, pid, deadline_ns);
        if (!thread)
            return thread.error();
        __ptrace_rseq_configuration rseq = {};
        ptrace(PTRACE_GET_RSEQ_CONFIGURATION, pid, sizeof(rseq), &rseq);
        if (in_sequence(pid, rseq)) {
            (void)thread->hide_stop();
            continue; // lets go of it
        }
        Result<Instructions> instructions = find_instructions(Proc(pid));
        if (!instructions) {
            (void)thread->hide_stop();
            return instructions.error();
        }
        Intrusion made(std::move(*thread), *instructions);
        made.rseq_ = rseq;
        if (Result<void> seen = made.look(path, check); !seen) {
            (void)made.thread_.hide_stop();
            return seen.error();
        }
        return made;
    }
    return Error(EBUSY, fmt::format("process {}: its first thread is in a restartable sequence "
                                    "whenever it is looked at; try again",
                                    pid));
}

Result<void> Intrusion::look(const std::string &path, const Check &check)
{
    Result<user_regs_struct> registers = thread_.registers();
    Result<std::vector<char>> state = thread_.vector_state();
    Result<uint64_t> mask = thread_.mask();
    if (!registers || !state || !mask)
        return !registers ? registers.error() : !state ? state.error() : mask.error();
    const auto refused = [this](const char *why) {
        return Error(ENOTSUP, fmt::format("process {} {}: Cryo cannot enter it while it runs; "
                                          "start it under cr_run",
                                          pid(), why));
    };
    if (registers->cs != user_code)
        return refused("runs 32-bit code");
    if (has_shadow_stack(thread_.tid()))
        return refused("has a shadow stack");
    if (passes_its_calls(thread_.tid()))
        return Error(ENOTSUP, fmt::format("process {} has its system calls passed to itself "
                                          "(PR_SET_SYSCALL_USER_DISPATCH): it cannot be saved",
                                          pid()));
    if (Result<void> may = check(*registers); !may)
        return may;
    before_ = *registers;
    vector_state_ = std::move(*state);
    mask_ = *mask;
    way_ = WayBack::make(before_, vector_state_, mask_, instructions_.sigreturn, path);
    if (!write_memory(pid(), way_.at, way_.bytes.data(), way_.bytes.size()))
        return Error(EAGAIN, fmt::format("process {}: the stack of its first thread has no room "
                                         "at this moment; try again",
                                         pid()));
    return {};
}

Intrusion::~Intrusion()
{
    if (is_inside_)
        (void)finish(0);
}

void Intrusion::describe_rseq(agent::AttachOrder &order) const
{
    order.rseq_size = rseq_.rseq_abi_pointer != 0 ? rseq_.rseq_abi_size : 0;
    order.rseq_offset = static_cast<int64_t>(rseq_.rseq_abi_pointer - before_.fs_base);
}

user_regs_struct Intrusion::foreign_registers() const
{
    user_regs_struct registers = before_;
    registers.orig_rax = ~0ULL; // no system call is to be restarted
    registers.rsp = way_.stack().number();
    registers.eflags = plain_flags;
    return registers;
}

// The order of the two matters: a thread that is left in between finds its way back, and takes
// signals as before.
Result<void> Intrusion::start(const user_regs_struct &registers)
{
    if (Result<void> set = thread_.set_registers(registers); !set)
        return set;
    const bool first = !std::exchange(is_inside_, true);
    return first ? thread_.set_mask(meanwhile) : Result<void>();
}

// A signal of a fault that somebody has sent would run the program's handler in the middle of our
// code. So it is kept until the end; of each number one, as the kernel does.
void Intrusion::keep(const siginfo_t &info)
{
    if (std::none_of(kept_.begin(), kept_.end(),
                     [&](const siginfo_t &one) { return one.si_signo == info.si_signo; }))
        kept_.push_back(info);
}

// The kernel lets nobody else say who has sent it by kill(2) or tgkill(2).
void Intrusion::send_kept()
{
    for (siginfo_t &info : kept_) {
        if (info.si_code == SI_USER)
            kill(pid(), info.si_signo);
        else if (info.si_code == SI_TKILL)
            syscall(SYS_tgkill, pid(), thread_.tid(), info.si_signo);
        else
            syscall(SYS_rt_tgsigqueueinfo, pid(), thread_.tid(), info.si_signo, &info);
    }
    kept_.clear();
}

// Signals that cannot be blocked are the program's, if our code has not faulted.
Result<void> Intrusion::next_call()
{
    for (int signal = 0;;) {
        thread_.go(PTRACE_SYSCALL, signal);
        Result<SeizedThread::Stop> stop = thread_.await();
        if (!stop)
            return stop.error();
        if (stop->kind == SeizedThread::Kind::call)
            return {};
        signal = stop->signal;
        if (!is_fault(signal))
            continue;
        siginfo_t info = {};
        if (ptrace(PTRACE_GETSIGINFO, thread_.tid(), nullptr, &info) != 0 || info.si_code > 0)
            return Error(EFAULT, fmt::format("process {}: Cryo's code failed in it (signal {}); "
                                             "the program goes on without",
                                             pid(), signal));
        keep(info);
        signal = 0;
        if (Result<void> in_time = thread_.check_time(); !in_time)
            return in_time;
    }
}

Result<int64_t> Intrusion::call6(long number, const std::array<uint64_t, 6> &args)
{
    user_regs_struct registers = foreign_registers();
    registers.rip = instructions_.call.number();
    registers.rax = static_cast<unsigned long long>(number);
    registers.rdi = args[0];
    registers.rsi = args[1];
    registers.rdx = args[2];
    registers.r10 = args[3];
    registers.r8 = args[4];
    registers.r9 = args[5];
    if (Result<void> started = start(registers); !started)
        return started.error();
    // At the beginning of the call, and at its end. One that is passed over has an end, too.
    int stops = std::exchange(is_at_beginning_, false) ? 3 : 2;
    for (;;) {
        for (; stops > 0; stops--) {
            if (Result<void> there = next_call(); !there)
                return there.error();
        }
        const Result<user_regs_struct> after = thread_.registers();
        if (!after)
            return after.error();
        if (!is_begun_anew(*after))
            return static_cast<int64_t>(after->rax);
        stops = 2;
    }
}

Result<agent::AttachOrder> Intrusion::run(RemoteAddress entry, const agent::AttachOrder &order)
{
    const auto not_there = [this] {
        return Error(EFAULT, fmt::format("process {}: its memory has changed under Cryo", pid()));
    };
    if (!write_memory(pid(), way_.order(), &order, sizeof(order)))
        return not_there();
    user_regs_struct registers = foreign_registers();
    registers.rip = entry.number();
    registers.rdi = way_.order().number();
    if (Result<void> started = start(registers); !started)
        return started.error();
    for (;;) {
        if (Result<void> there = next_call(); !there)
            return there.error();
        const Result<user_regs_struct> now = thread_.registers();
        if (!now)
            return now.error();
        if (now->orig_rax == SYS_rt_sigreturn && now->rsp == way_.context().number())
            break;
    }
    is_at_beginning_ = true;
    agent::AttachOrder answer;
    if (!read_memory(pid(), way_.order(), &answer, sizeof(answer)))
        return not_there();
    return answer;
}

// Left alone at any moment of this, the thread makes the rt_sigreturn by which everything comes
// back: the call at whose beginning it may stand, mostly that one, is passed over, so that it is
// begun once more. The registers come last for that reason.
Result<void> Intrusion::finish(int unblocked)
{
    if (!std::exchange(is_inside_, false))
        return {};
    thread_.insist(now_ns() + time_to_finish_ns);
    user_regs_struct registers = foreign_registers();
    registers.rip = instructions_.sigreturn.number();
    registers.rsp = way_.context().number();
    if (Result<void> set = thread_.set_registers(registers); !set)
        return set;
    if (Result<void> rests = thread_.come_to_rest(); !rests)
        return rests;
    const uint64_t mask = mask_ & ~(unblocked != 0 ? bit(unblocked) : 0);
    Result<void> done = thread_.set_vector_state(vector_state_);
    if (done)
        done = thread_.set_mask(mask);
    send_kept();
    registers = before_;
    hide_interruption(registers, thread_.signal_waits(mask));
    if (done)
        done = thread_.set_registers(registers);
    thread_.let_go();
    return done;
}

} // namespace cryo::capture
