// SPDX-License-Identifier: Apache-2.0
// A child that was stopped after its fork, before its agent listens: it is led to the end of what
// its agent does then. On the way it is in the C library's code and in the agent's only. It stands
// before each instruction until the agent has blocked all signals, which it does first and last of
// all in a child; in between it stands at each system call. So nothing of the program runs,
// whatever the child is: one that has no agent, as it was made by a system call of the program's,
// is left where it would come to the program or would make a system call for it.
#include "capture/process/stopped.hpp"

#include "look/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <fmt/format.h>
#include <sched.h>
#include <string>
#include <string_view>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace cryo::capture {

namespace {

constexpr int most_steps = 200'000;
constexpr int most_calls =
    5000;                  // entries and ends; some 40 are needed, and more with many descriptors
constexpr int soon = 2000; // looks at a thread that needs a few microseconds

enum class Code { program, library, agent };

class Map
{
  public:
    explicit Map(const Proc &proc)
    {
        const Result<std::string> maps = proc.read("maps");
        std::string_view rest = maps ? std::string_view(*maps) : std::string_view();
        while (!rest.empty()) {
            std::string_view line = rest.substr(0, rest.find('\n'));
            rest.remove_prefix(std::min(line.size() + 1, rest.size()));
            const std::string_view name = line.substr(line.rfind('/') + 1);
            const bool agent = name.starts_with("libcr_");
            if (!agent && !name.starts_with("libc.so") && !name.starts_with("libc-2") &&
                !name.starts_with("libpthread") && !name.starts_with("ld-linux"))
                continue;
            const uint64_t start = take_number(line, 16);
            line.remove_prefix(1);
            const uint64_t end = take_number(line, 16);
            ranges_.push_back({start, end, agent ? Code::agent : Code::library});
        }
    }

    Code at(uint64_t address) const
    {
        for (const Range &one : ranges_) {
            if (address >= one.start && address < one.end)
                return one.code;
        }
        return Code::program;
    }

    bool has_agent() const
    {
        return std::ranges::any_of(ranges_,
                                   [](const Range &one) { return one.code == Code::agent; });
    }

  private:
    struct Range {
        uint64_t start, end;
        Code code;
    };
    std::vector<Range> ranges_;
};

constexpr uint64_t bit_of_trap = uint64_t(1) << (SIGTRAP - 1);

// A step under a blocked SIGTRAP unblocks it, and sets its action to the default one.
bool has_action_for_trap(pid_t pid)
{
    const Result<std::string> status = Proc(pid).read("status");
    std::string_view caught = status ? field(*status, "SigCgt") : std::string_view();
    std::string_view ignored = status ? field(*status, "SigIgn") : std::string_view();
    return !status || ((take_number(caught, 16) | take_number(ignored, 16)) & bit_of_trap) != 0;
}

bool blocks_all(pid_t tid)
{
    constexpr uint64_t never =
        uint64_t(1) << (SIGKILL - 1) | uint64_t(1) << (SIGSTOP - 1) | bit_of_trap;
    uint64_t mask = 0;
    return ptrace(PTRACE_GETSIGMASK, tid, sizeof(mask), &mask) == 0 &&
           (mask | never) == ~uint64_t(0);
}

// As the kernel leaves them in a thread that makes an interrupted system call again.
bool is_about_to_repeat(const user_regs_struct &registers)
{
    constexpr int64_t first = -516, last = -512; // ERESTART_RESTARTBLOCK, ERESTARTSYS
    const auto result = static_cast<int64_t>(registers.rax);
    return static_cast<int64_t>(registers.orig_rax) >= 0 && result >= first && result <= last;
}

// Whether the next instruction may act for the program: the agent makes calls for it, too, in the
// functions that it interposes.
bool may_act(pid_t tid, const user_regs_struct &registers)
{
    constexpr long instruction = 0x050f; // syscall
    const long next = ptrace(PTRACE_PEEKTEXT, tid, registers.rip, nullptr);
    if ((next & 0xffff) != instruction)
        return false;
    const auto call = static_cast<long>(registers.rax);
    return call != SYS_set_robust_list && call != SYS_rt_sigprocmask && call != SYS_rseq &&
           call != SYS_set_tid_address && call != SYS_gettid && call != SYS_getpid;
}

} // namespace

// Lets a thread go on by a request of ptrace(2) and returns its registers at the next stop of the
// expected kind; an error: there is none.
Result<user_regs_struct> Stopped::next(pid_t tid, Thread &thread, int request, int expected)
{
    for (;;) {
        if (Result<void> in_time = count_step(tid); !in_time)
            return in_time.error();
        if (ptrace(static_cast<__ptrace_request>(request), tid, nullptr, nullptr) != 0)
            return Error::from_errno("leading a thread", errno);
        int status = 0;
        pid_t got = 0;
        for (int i = 0; i < soon && got == 0; i++) {
            got = waitpid(tid, &status, __WALL | WNOHANG);
            if (got == 0)
                sched_yield();
        }
        if (got == 0) {
            Result<int> trapped = await_trap(tid);
            if (!trapped)
                return trapped.error();
            status = *trapped;
        } else if (got != tid || !WIFSTOPPED(status)) {
            return Error(ESRCH, "a thread that was led has ended");
        }
        const int signal = WSTOPSIG(status);
        if (status >> 16 != 0)
            continue; // a group stop
        if (signal == SIGSTOP) {
            thread.last = SIGSTOP; // a further one; see run()
            continue;
        }
        user_regs_struct registers;
        if (signal == expected && ptrace(PTRACE_GETREGS, tid, nullptr, &registers) == 0)
            return registers;
        syscall(SYS_tgkill, pid_, tid, signal); // it arrived just now
        return Error(EAGAIN, "a signal has come to a thread that was led");
    }
}

Result<void> Stopped::lead_to_door()
{
    constexpr int at_call = SIGTRAP | 0x80; // PTRACE_O_TRACESYSGOOD
    if (threads_.size() != 1)
        return {};
    auto &[tid, thread] = *threads_.begin();
    const Map map{Proc(pid_)};
    user_regs_struct first;
    if (thread.masked || !map.has_agent() || has_action_for_trap(pid_) ||
        ptrace(PTRACE_GETREGS, tid, nullptr, &first) != 0 || is_about_to_repeat(first))
        return {};
    Result<user_regs_struct> now = first;
    for (int i = 0; map.at(now->rip) != Code::agent || !blocks_all(tid); i++) {
        if (i == most_steps || map.at(now->rip) == Code::program || may_act(tid, *now))
            return {};
        now = next(tid, thread, PTRACE_SINGLESTEP, SIGTRAP);
        if (!now)
            return {};
    }
    if (ptrace(PTRACE_SETOPTIONS, tid, nullptr, PTRACE_O_TRACESYSGOOD) != 0)
        return {};
    for (int i = 0; i < most_calls && now && map.at(now->rip) == Code::agent && blocks_all(tid);
         i++)
        now = next(tid, thread, PTRACE_SYSCALL, at_call);
    ptrace(PTRACE_SETOPTIONS, tid, nullptr, 0);
    const Result<std::vector<int>> all = Proc(pid_).numbers("task");
    if (!now || map.at(now->rip) != Code::agent || blocks_all(tid) || !all || all->size() != 1)
        return Error(ENOTSUP,
                     fmt::format("process {} was stopped right after its fork: continue it "
                                 "with kill -CONT {}",
                                 pid_, pid_));
    if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(thread.mask), &thread.mask) != 0)
        return refused(tid, errno);
    return keep_others_away(tid, thread);
}

} // namespace cryo::capture
