// SPDX-License-Identifier: Apache-2.0
//
// What a filter of system calls answers, found out without the kernel; and with it.
#include "look/agent_calls.hpp"
#include "look/filter_program.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/cryo.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <linux/userfaultfd.h>
#include <map>
#include <random>
#include <string_view>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {
namespace {

using Program = std::vector<sock_filter>;

constexpr uint32_t number_at = offsetof(seccomp_data, nr);
constexpr uint32_t arch_at = offsetof(seccomp_data, arch);

constexpr uint32_t argument_at(uint32_t which)
{
    return offsetof(seccomp_data, args) + which * sizeof(uint64_t);
}

sock_filter load(uint32_t offset)
{
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}

sock_filter plain(int code, uint32_t k = 0)
{
    return BPF_STMT(code, k);
}

sock_filter give(uint32_t answer)
{
    return BPF_STMT(BPF_RET | BPF_K, answer);
}

// `answer` for that number, and all others are allowed.
Program only(long number, uint32_t answer)
{
    return {load(number_at),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1), give(answer),
            give(SECCOMP_RET_ALLOW)};
}

// As only(), if the argument's lower half has one of these bits.
Program only_with(long number, uint32_t argument, uint32_t bits, uint32_t answer)
{
    return {load(number_at),
            BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 3),
            load(argument_at(argument)),
            BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, 1),
            give(answer),
            give(SECCOMP_RET_ALLOW)};
}

unsigned of_number(const Program &program, long number)
{
    return possible_answers(program, {static_cast<uint32_t>(number)});
}

std::string_view stopped(const Program &program)
{
    const AgentCall *call = first_stopped(program, agent_calls());
    return call != nullptr ? call->name : "none";
}

TEST(FilterProgram, AnswersByNumber)
{
    const Program program = only(SYS_getpriority, SECCOMP_RET_ERRNO | EPERM);
    EXPECT_EQ(answer_refuses, of_number(program, SYS_getpriority));
    EXPECT_EQ(answer_allows, of_number(program, SYS_read));
}

TEST(FilterProgram, TellsApartWhatAnswersMean)
{
    const auto meaning = [](uint32_t answer) { return of_number({give(answer)}, SYS_read); };
    EXPECT_EQ(answer_allows, meaning(SECCOMP_RET_ALLOW));
    EXPECT_EQ(answer_allows, meaning(SECCOMP_RET_LOG));
    EXPECT_EQ(answer_refuses, meaning(SECCOMP_RET_ERRNO | ENOSYS));
    for (const uint32_t other : {uint32_t(SECCOMP_RET_ERRNO), SECCOMP_RET_ERRNO | ESRCH,
                                 SECCOMP_RET_TRAP, SECCOMP_RET_TRACE, SECCOMP_RET_USER_NOTIF,
                                 SECCOMP_RET_KILL_THREAD, SECCOMP_RET_KILL_PROCESS, 0x12345678U})
        EXPECT_EQ(answer_other, meaning(other)) << std::hex << other;
}

TEST(FilterProgram, GoesBothWaysWhereAnArgumentIsNotKnown)
{
    const Program program =
        only_with(SYS_clone, 0, CLONE_NEWUSER, SECCOMP_RET_ERRNO | uint32_t(EPERM));
    EXPECT_EQ(answer_allows | answer_refuses, of_number(program, SYS_clone));
    EXPECT_EQ(answer_allows, possible_answers(program, {SYS_clone, {SIGCHLD}}));
    EXPECT_EQ(answer_refuses, possible_answers(program, {SYS_clone, {CLONE_NEWUSER | SIGCHLD}}));
}

TEST(FilterProgram, KnowsBothHalvesOfAnArgument)
{
    const auto upper = [](uint32_t half) {
        return Program{load(argument_at(1) + 4), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, half, 0, 1),
                       give(SECCOMP_RET_ALLOW), give(SECCOMP_RET_KILL_PROCESS)};
    };
    PartlyKnownCall call{SYS_read};
    call.arguments[1] = uint64_t{7} << 32 | 9;
    EXPECT_EQ(answer_allows, possible_answers(upper(7), call));
    EXPECT_EQ(answer_other, possible_answers(upper(9), call));
}

TEST(FilterProgram, IsOfThisArchitecture)
{
    const Program program = {load(arch_at),
                             BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
                             give(SECCOMP_RET_KILL_PROCESS), give(SECCOMP_RET_ALLOW)};
    EXPECT_EQ(answer_allows, of_number(program, SYS_read));
}

TEST(FilterProgram, DivisionByZeroEndsIt)
{
    const auto by = [](sock_filter divisor) {
        return Program{divisor, BPF_STMT(BPF_MISC | BPF_TAX, 0),
                       BPF_STMT(BPF_ALU | BPF_DIV | BPF_X, 0), give(SECCOMP_RET_ALLOW)};
    };
    EXPECT_EQ(answer_allows, of_number(by(BPF_STMT(BPF_LD | BPF_IMM, 3)), SYS_read));
    EXPECT_EQ(answer_other, of_number(by(BPF_STMT(BPF_LD | BPF_IMM, 0)), SYS_read));
    EXPECT_EQ(answer_allows | answer_other, of_number(by(load(argument_at(0))), SYS_read));
}

// 2^40 ways, if equal ones were not found; and then memory that makes all of them different.
TEST(FilterProgram, EndsOnVeryManyWays)
{
    Program program;
    for (int i = 0; i < 40; i++) {
        program.push_back(load(argument_at(0)));
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1U << i % 32, 0, 0));
    }
    program.push_back(give(SECCOMP_RET_ALLOW));
    EXPECT_EQ(answer_allows, of_number(program, SYS_read));
    program.clear();
    for (uint32_t i = 0; i < 40; i++) {
        program.push_back(load(argument_at(0)));
        program.push_back(BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 1U << i % 32, 0, 2));
        program.push_back(BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, i));
        program.push_back(BPF_STMT(BPF_STX, i % BPF_MEMWORDS));
    }
    program.push_back(give(SECCOMP_RET_ALLOW));
    EXPECT_NE(0U, of_number(program, SYS_read) & answer_other);
}

TEST(FilterProgram, MayAskAListener)
{
    EXPECT_TRUE(may_ask_listener(only(SYS_read, SECCOMP_RET_USER_NOTIF)));
    EXPECT_TRUE(may_ask_listener(Program{load(number_at), BPF_STMT(BPF_RET | BPF_A, 0)}));
    EXPECT_FALSE(may_ask_listener(only(SYS_read, SECCOMP_RET_TRACE)));
}

TEST(AgentCalls, PassWhatForbidsOthers)
{
    for (const uint32_t answer : {SECCOMP_RET_ERRNO | uint32_t(EXDEV), SECCOMP_RET_KILL_PROCESS})
        EXPECT_EQ("none", stopped(only(SYS_getpriority, answer)));
    EXPECT_EQ("none", stopped(only_with(SYS_clone, 0, CLONE_NEWUSER, SECCOMP_RET_KILL_PROCESS)));
    EXPECT_EQ("none", stopped(only_with(SYS_mmap, 2, PROT_EXEC, SECCOMP_RET_KILL_PROCESS)));
    EXPECT_EQ("none", stopped(only_with(SYS_socket, 0, AF_INET, SECCOMP_RET_KILL_PROCESS)));
}

TEST(AgentCalls, AreNamed)
{
    for (const uint32_t answer : {SECCOMP_RET_ERRNO | uint32_t(EPERM), uint32_t(SECCOMP_RET_ERRNO),
                                  SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP}) {
        EXPECT_EQ("getdents64", stopped(only(SYS_getdents64, answer)));
        EXPECT_EQ("socket", stopped(only_with(SYS_socket, 0, AF_UNIX, answer)));
    }
    EXPECT_EQ(nullptr, first_stopped(only(SYS_openat, SECCOMP_RET_TRAP), calls_after_filters()));
    const AgentCall *last =
        first_stopped(only(SYS_rt_sigreturn, SECCOMP_RET_TRAP), calls_after_filters());
    ASSERT_NE(nullptr, last);
    EXPECT_EQ(SYS_rt_sigreturn, last->number);
}

TEST(AgentCalls, AreJudgedByWhatIsKnownOfThem)
{
    // A helper shares the program's memory.
    EXPECT_EQ("clone", stopped(only_with(SYS_clone, 0, CLONE_VM, SECCOMP_RET_KILL_PROCESS)));
    EXPECT_EQ("clone", stopped(only_with(SYS_clone, 0, CLONE_FILES, SECCOMP_RET_KILL_PROCESS)));
    for (const uint32_t request : {uint32_t(UFFDIO_API), CRYO_IOC_DUMP, CRYO_IOC_SCAN}) {
        const auto answering = [request](uint32_t answer) {
            Program program = only_with(SYS_ioctl, 1, 0, answer);
            program[3] = BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, request, 0, 1);
            return program;
        };
        EXPECT_EQ("ioctl", stopped(answering(SECCOMP_RET_KILL_PROCESS))) << request;
        EXPECT_EQ("none", stopped(answering(SECCOMP_RET_ERRNO | EPERM))) << request;
    }
}

TEST(AgentCalls, BetweenTwoFilters)
{
    const auto first_between = [](const Program &program) {
        return first_stopped(program, calls_between_filters());
    };
    EXPECT_EQ(nullptr, first_between(only(SYS_prctl, SECCOMP_RET_KILL_PROCESS)));
    EXPECT_NE(nullptr, first_between(only(SYS_seccomp, SECCOMP_RET_ERRNO | EPERM)));
}

TEST(AgentCalls, AreDoneWithoutWhereTheyFailAsIfUnknown)
{
    EXPECT_EQ("none", stopped(only(SYS_kcmp, SECCOMP_RET_ERRNO | EPERM)));
    EXPECT_EQ("none", stopped(only(SYS_vmsplice, SECCOMP_RET_ERRNO | ENOSYS)));
    EXPECT_EQ("kcmp", stopped(only(SYS_kcmp, SECCOMP_RET_KILL_PROCESS)));
    EXPECT_EQ("vmsplice", stopped(only(SYS_vmsplice, SECCOMP_RET_ERRNO | ENOMEM)));
}

// A random program, which lets its process end.
class Random
{
  public:
    explicit Random(uint32_t seed) : random_(seed) {}

    uint32_t any() { return below(4) == 0 ? static_cast<uint32_t>(random_()) : below(8); }

    Program program()
    {
        Program made = {load(number_at), BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_exit_group, 0, 1),
                        give(SECCOMP_RET_ALLOW)};
        for (uint32_t i = 0; i < BPF_MEMWORDS; i++) // what was not stored may not be loaded
            made.push_back(BPF_STMT(BPF_ST, i));
        constexpr size_t steps = 40;
        const size_t end = made.size() + steps;
        while (made.size() < end)
            made.push_back(step(end - made.size() - 1));
        for (const uint32_t answer : answers) // jumps lead to one of the three
            made.push_back(give(answer));
        return made;
    }

    static constexpr uint32_t answers[] = {SECCOMP_RET_ALLOW, SECCOMP_RET_ERRNO | EPERM,
                                           SECCOMP_RET_ERRNO | ENOSYS};

  private:
    uint32_t below(size_t end) { return static_cast<uint32_t>(random_() % end); }

    sock_filter step(size_t left)
    {
        static constexpr uint16_t operations[] = {BPF_ADD, BPF_SUB, BPF_MUL,
                                                  BPF_AND, BPF_OR,  BPF_XOR};
        static constexpr uint16_t tests[] = {BPF_JEQ, BPF_JGT, BPF_JGE, BPF_JSET};
        const uint16_t source = below(2) != 0 ? BPF_X : BPF_K;
        const auto jump = [&] {
            return static_cast<uint8_t>(below(static_cast<uint32_t>(left) + 3));
        };
        switch (below(14)) {
        case 0:
            return load(below(16) * 4);
        case 1:
            return BPF_STMT(BPF_LDX | BPF_W | BPF_IMM, any());
        case 2:
            return BPF_STMT(below(2) != 0 ? BPF_ST : BPF_STX, below(BPF_MEMWORDS));
        case 3:
            return BPF_STMT(BPF_LD | BPF_MEM, below(BPF_MEMWORDS));
        case 4:
            return BPF_STMT(BPF_MISC | (below(2) != 0 ? BPF_TAX : BPF_TXA), 0);
        case 5:
            return BPF_STMT(BPF_ALU | (below(2) != 0 ? BPF_LSH : BPF_RSH) | BPF_K, below(32));
        case 6:
            return BPF_STMT(BPF_ALU | operations[below(std::size(operations))] | source, any());
        case 7:
            return BPF_STMT(BPF_ALU | BPF_NEG, 0);
        case 8: // mostly not by 0, which ends a filter
            return below(4) == 0 ? plain(BPF_ALU | BPF_DIV | BPF_X)
                                 : plain(BPF_ALU | BPF_DIV | BPF_K, 1 + below(8));
        case 9:
            return plain(BPF_LDX | BPF_MEM, below(BPF_MEMWORDS));
        case 10:
            return below(2) != 0 ? plain(BPF_LD | BPF_W | BPF_IMM, any())
                                 : plain((below(2) != 0 ? BPF_LD : BPF_LDX) | BPF_W | BPF_LEN);
        case 11:
            return below(4) != 0   ? plain(BPF_JMP | BPF_JA, jump())
                   : below(8) != 0 ? plain(BPF_ALU | (below(2) != 0 ? BPF_LSH : BPF_RSH) | BPF_X)
                                   : plain(BPF_RET | BPF_A);
        default:
            return BPF_JUMP(BPF_JMP | tests[below(std::size(tests))] | source, any(), jump(),
                            jump());
        }
    }

    std::mt19937 random_;
};

constexpr long child_allowed = 40; // exit codes; a sanitizer's own is 1
constexpr long child_refused = 41;
constexpr long child_failed = 42;

// In a child. Behind the filter it makes no call but these two: before one of a function that does
// not return, such as _exit(), a sanitizer calls sigaltstack(2).
[[noreturn]] void ask_kernel(const sock_fprog &filter, const std::array<uint64_t, 7> &call)
{
    const rlimit no_core = {0, 0};
    if (setrlimit(RLIMIT_CORE, &no_core) != 0 || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0)
        _exit(child_failed);
    const long done =
        syscall(static_cast<long>(call[0]), call[1], call[2], call[3], call[4], call[5], call[6]);
    const bool refused = done < 0 && (errno == EPERM || errno == ENOSYS);
    for (;;)
        syscall(SYS_exit_group, done >= 0 ? child_allowed : refused ? child_refused : child_failed);
}

constexpr unsigned no_answer = 8;

// All arguments of the call are known.
unsigned asked_of_kernel(const Program &program, const PartlyKnownCall &call)
{
    const sock_fprog filter = {static_cast<unsigned short>(program.size()),
                               const_cast<sock_filter *>(program.data())};
    std::array<uint64_t, 7> made = {call.number};
    for (size_t i = 0; i < call.arguments.size(); i++)
        made[i + 1] = *call.arguments[i];
    const pid_t child = fork();
    if (child == 0)
        ask_kernel(filter, made);
    int status = 0;
    waitpid(child, &status, 0);
    if (WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS)
        return answer_other;
    const int code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    return code == child_allowed   ? answer_allows
           : code == child_refused ? answer_refuses
                                   : no_answer;
}

// Whether it loads the address of the call.
bool hangs_on_unknown(const Program &program)
{
    return std::ranges::any_of(program, [](const sock_filter &step) {
        constexpr uint16_t loading = BPF_LD | BPF_W | BPF_ABS;
        return step.code == loading && step.k > arch_at && step.k < argument_at(0);
    });
}

TEST(FilterProgram, AnswersAsTheKernelDoes)
{
    std::map<unsigned, unsigned> count;
    constexpr uint32_t programs = 400;
    for (uint32_t seed = 0; seed < programs; seed++) {
        Random random(seed);
        const Program program = random.program();
        PartlyKnownCall call{SYS_getppid};
        for (auto &argument : call.arguments)
            argument = uint64_t{random.any()} << 32 | random.any();
        const unsigned told = possible_answers(program, call);
        const unsigned known = asked_of_kernel(program, call);
        // Of what is not known, it tells all answers.
        EXPECT_EQ(known, told & known) << "seed " << seed;
        if (!hangs_on_unknown(program)) {
            EXPECT_EQ(known, told) << "seed " << seed;
        }
        // Or that there are too many ways.
        EXPECT_NE(0U, possible_answers(program, {SYS_getppid}) & (known | answer_other))
            << "seed " << seed;
        count[known]++;
    }
    for (const unsigned answer : {answer_allows, answer_refuses, answer_other})
        EXPECT_GT(count[answer], programs / 20) << answer;
}

} // namespace
} // namespace cryo::capture
