// SPDX-License-Identifier: Apache-2.0
// A child that was stopped right after its fork, before its agent could listen: it is led to that
// point. On the way it is in the C library's code and in the agent's only: it stands before each
// instruction until it is in the agent's function, at each system call until it listens, and before
// each instruction again until the function ends. So nothing of the program runs, whatever the
// child is.
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

  private:
    struct Range {
        uint64_t start, end;
        Code code;
    };
    std::vector<Range> ranges_;
};

bool is_newborn(const user_regs_struct &registers, const Map &map)
{
    return registers.rax == 0 &&
           (registers.orig_rax == SYS_clone || registers.orig_rax == SYS_fork ||
            registers.orig_rax == SYS_clone3) &&
           map.at(registers.rip) == Code::library;
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
    if (thread.masked || ptrace(PTRACE_GETREGS, tid, nullptr, &first) != 0 ||
        !is_newborn(first, map))
        return {};
    Result<user_regs_struct> now = first;
    for (int i = 0; i < most_steps && map.at(now->rip) == Code::library; i++) {
        now = next(tid, thread, PTRACE_SINGLESTEP, SIGTRAP);
        if (!now)
            return {};
    }
    if (map.at(now->rip) != Code::agent ||
        ptrace(PTRACE_SETOPTIONS, tid, nullptr, PTRACE_O_TRACESYSGOOD) != 0)
        return {};
    const uint64_t stack = now->rsp; // of the function that the C library has called
    bool listens = false;
    for (int i = 0; i < most_calls && now && !listens; i++) {
        now = next(tid, thread, PTRACE_SYSCALL, at_call);
        listens = now && now->orig_rax == SYS_listen && static_cast<int64_t>(now->rax) != -ENOSYS;
    }
    ptrace(PTRACE_SETOPTIONS, tid, nullptr, 0);
    for (int i = 0; i < most_steps && now && now->rsp <= stack; i++)
        now = next(tid, thread, PTRACE_SINGLESTEP, SIGTRAP);
    Result<std::vector<int>> all = Proc(pid_).numbers("task");
    if (!now || now->rsp <= stack || !all || all->size() != 1)
        return Error(ENOTSUP,
                     fmt::format("process {} was stopped right after its fork: continue it "
                                 "with kill -CONT {}",
                                 pid_, pid_));
    // The C library had all signals blocked meanwhile.
    if (ptrace(PTRACE_GETSIGMASK, tid, sizeof(thread.mask), &thread.mask) != 0)
        return refused(tid, errno);
    return keep_others_away(tid, thread);
}

} // namespace cryo::capture
