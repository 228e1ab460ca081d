// SPDX-License-Identifier: Apache-2.0
//
// Examples of what a filter of system calls stops, and whether other filters stop them: with those
// of the kernel.
#include "look/stopped_calls.hpp"
#include "look/tried_calls.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <functional>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::capture {
namespace {

using Program = std::vector<sock_filter>;

constexpr uint32_t allow = SECCOMP_RET_ALLOW, refuse = SECCOMP_RET_ERRNO | EPERM;

sock_filter load(uint32_t offset)
{
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offset);
}

sock_filter load_argument(uint32_t which, bool upper = false)
{
    return load(offsetof(seccomp_data, args) + which * sizeof(uint64_t) +
                (upper ? sizeof(uint32_t) : 0));
}

sock_filter jump(int operation, uint32_t k, uint8_t if_true, uint8_t if_false)
{
    return BPF_JUMP(static_cast<uint16_t>(BPF_JMP | BPF_K | operation), k, if_true, if_false);
}

sock_filter give(uint32_t answer)
{
    return BPF_STMT(BPF_RET | BPF_K, answer);
}

Program only(long number, uint32_t answer)
{
    return {load(offsetof(seccomp_data, nr)), jump(BPF_JEQ, static_cast<uint32_t>(number), 0, 1),
            give(answer), give(allow)};
}

// `answer` where the argument, through `mask`, is `value`.
Program by_argument(long number, uint32_t which, uint32_t mask, uint32_t value, uint32_t answer)
{
    return {load(offsetof(seccomp_data, nr)),
            jump(BPF_JEQ, static_cast<uint32_t>(number), 0, 4),
            load_argument(which),
            BPF_STMT(BPF_ALU | BPF_AND | BPF_K, mask),
            jump(BPF_JEQ, value, 0, 1),
            give(answer),
            give(allow)};
}

bool has(const StoppedCalls &stopped, const std::function<bool(const FullCall &)> &is_one)
{
    return std::ranges::any_of(stopped.calls, is_one);
}

TEST(StoppedCalls, AreThoseOfEachKind)
{
    const StoppedCalls stopped = stopped_calls(only(SYS_getpriority, refuse));
    EXPECT_TRUE(stopped.are_all);
    ASSERT_EQ(2U, stopped.calls.size());
    EXPECT_FALSE(stopped.calls[0].is_32_bit);
    EXPECT_TRUE(stopped.calls[1].is_32_bit);
    EXPECT_EQ(uint32_t(SYS_getpriority), stopped.calls[0].number);
}

TEST(StoppedCalls, AreAllButAFew)
{
    Program program = only(SYS_read, allow);
    program.back() = give(SECCOMP_RET_KILL_PROCESS);
    const StoppedCalls stopped = stopped_calls(program);
    EXPECT_TRUE(stopped.are_all);
    EXPECT_TRUE(has(stopped, [](const FullCall &call) { return call.number == SYS_getpriority; }));
    EXPECT_FALSE(has(stopped, [](const FullCall &call) { return call.number == SYS_read; }));
}

TEST(StoppedCalls, WhatIsAskedElsewhereIsStopped)
{
    for (const uint32_t answer :
         {SECCOMP_RET_TRAP, SECCOMP_RET_TRACE, SECCOMP_RET_USER_NOTIF, SECCOMP_RET_KILL_THREAD})
        EXPECT_EQ(2U, stopped_calls(only(SYS_sync, answer)).calls.size());
    EXPECT_TRUE(stopped_calls(only(SYS_sync, SECCOMP_RET_LOG)).calls.empty());
}

TEST(StoppedCalls, HaveTheArguments)
{
    const StoppedCalls stopped = stopped_calls(by_argument(SYS_socket, 0, ~0U, AF_PACKET, refuse));
    EXPECT_TRUE(stopped.are_all);
    ASSERT_FALSE(stopped.calls.empty());
    for (const FullCall &call : stopped.calls)
        EXPECT_EQ(uint64_t(AF_PACKET), call.arguments[0]);
}

TEST(StoppedCalls, HaveEachBit)
{
    Program program = by_argument(SYS_clone, 0, ~0U, 0, allow);
    program.erase(program.begin() + 3);
    program[1].jf--;
    program[3] = jump(BPF_JSET, CLONE_NEWNET | CLONE_NEWUSER, 0, 1);
    program[4] = give(refuse);
    const StoppedCalls stopped = stopped_calls(program);
    for (const uint64_t bit : {CLONE_NEWNET, CLONE_NEWUSER})
        EXPECT_TRUE(has(stopped, [&](const FullCall &call) { return call.arguments[0] == bit; }));
    EXPECT_FALSE(has(stopped, [](const FullCall &call) {
        return call.number == SYS_clone &&
               (call.arguments[0] & (CLONE_NEWNET | CLONE_NEWUSER)) == 0;
    }));
}

TEST(StoppedCalls, HaveUpperWords)
{
    Program program = by_argument(SYS_mmap, 1, ~0U, 7, refuse);
    program[2] = load_argument(1, true);
    const StoppedCalls stopped = stopped_calls(program);
    ASSERT_FALSE(stopped.calls.empty());
    EXPECT_EQ(uint64_t(7) << 32, stopped.calls.front().arguments[1] & 0xffffffff00000000);
    EXPECT_FALSE(has(stopped, [](const FullCall &call) { return call.is_32_bit; }));
}

TEST(StoppedCalls, ByThePlaceOfTheCallerAreNotFound)
{
    for (const uint8_t which : {0, 1}) {
        const Program program = {load(offsetof(seccomp_data, instruction_pointer)),
                                 jump(BPF_JGT, 4096, which, 1 - which), give(allow), give(refuse)};
        EXPECT_FALSE(stopped_calls(program).are_all);
    }
}

// Steps in front of the comparison lead to values of which there is no example.
TEST(StoppedCalls, ByWhatIsComputedAreNotFound)
{
    for (const uint16_t operation : {BPF_ADD, BPF_MUL, BPF_LSH}) {
        Program program = by_argument(SYS_socket, 0, 3, 0x5000, refuse);
        program[3].code = static_cast<uint16_t>(BPF_ALU | BPF_K | operation);
        const StoppedCalls stopped = stopped_calls(program);
        EXPECT_TRUE(!stopped.are_all || !stopped.calls.empty()) << operation;
    }
    // The low byte, and all of it.
    Program program = by_argument(SYS_socket, 0, 0xff, 0x80, refuse);
    program[1].jf += 2;
    program[4].jf += 2;
    program.insert(program.begin() + 5, {load_argument(0), jump(BPF_JGT, 0x1000, 0, 1)});
    StoppedCalls stopped = stopped_calls(program);
    EXPECT_TRUE(!stopped.are_all || !stopped.calls.empty());
    // Two arguments with each other.
    program = {load(offsetof(seccomp_data, nr)),
               jump(BPF_JEQ, SYS_socket, 0, 6),
               load_argument(0),
               BPF_STMT(BPF_ALU | BPF_SUB | BPF_K, 77),
               BPF_STMT(BPF_MISC | BPF_TAX, 0),
               load_argument(1),
               BPF_STMT(BPF_JMP | BPF_JEQ | BPF_X, 0),
               give(refuse),
               give(allow)};
    program[6].jf = 1;
    EXPECT_FALSE(stopped_calls(program).are_all);
}

// Another argument stands in front of the comparison in the program, not on the way to it.
TEST(StoppedCalls, AreComparedByWhatLeadsThere)
{
    const Program program = {load(offsetof(seccomp_data, nr)),
                             jump(BPF_JEQ, SYS_socket, 0, 5),
                             load_argument(0),
                             BPF_STMT(BPF_JMP | BPF_JA, 1),
                             load_argument(1),
                             jump(BPF_JEQ, AF_PACKET, 0, 1),
                             give(refuse),
                             give(allow)};
    const StoppedCalls stopped = stopped_calls(program);
    EXPECT_TRUE(stopped.are_all);
    EXPECT_TRUE(has(stopped, [](const FullCall &call) { return call.arguments[0] == AF_PACKET; }));
}

// As filters of many rules have it: a word is asked the same more than once.
TEST(StoppedCalls, OfManyRulesAreAll)
{
    Program program = {load(offsetof(seccomp_data, nr)), jump(BPF_JEQ, SYS_clone, 1, 0),
                       give(allow)};
    for (const uint32_t value : {0x80U, 0x40U, 0x20U}) {
        const std::initializer_list<sock_filter> rule = {load_argument(0, true),
                                                         BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0),
                                                         jump(BPF_JEQ, 0, 0, 4),
                                                         load_argument(0),
                                                         BPF_STMT(BPF_ALU | BPF_AND | BPF_K, 0xf0),
                                                         jump(BPF_JEQ, value, 0, 1),
                                                         give(refuse)};
        program.insert(program.end(), rule);
    }
    program.push_back(give(allow));
    const StoppedCalls stopped = stopped_calls(program);
    EXPECT_TRUE(stopped.are_all);
    for (const uint64_t value : {0x80, 0x40, 0x20})
        EXPECT_TRUE(has(stopped, [&](const FullCall &call) { return call.arguments[0] == value; }));
}

TEST(StoppedCalls, OfVeryManyWaysAreNotFound)
{
    Program program = {load(offsetof(seccomp_data, nr)), jump(BPF_JEQ, SYS_ioctl, 1, 0),
                       give(allow)};
    for (uint32_t i = 0; i < 64; i++) {
        const std::initializer_list<sock_filter> steps = {
            load_argument(i % 6), jump(BPF_JSET, 1U << (i / 6), 0, 1),
            BPF_STMT(BPF_LDX | BPF_IMM, i), BPF_STMT(BPF_STX, i % BPF_MEMWORDS)};
        program.insert(program.end(), steps);
    }
    program.push_back(give(refuse));
    EXPECT_FALSE(stopped_calls(program).are_all);
}

TEST(StoppedCalls, AreShown)
{
    EXPECT_EQ("system call 140", text_of({false, 140, {}}));
    EXPECT_EQ("system call 20 of 32-bit programs", text_of({true, 20, {}}));
    EXPECT_EQ("system call 56 of x32 programs with the arguments 0x20, 0x0, 0x0, 0x0, 0x0, 0x0",
              text_of({false, 0x40000038, {0x20}}));
}

bool put_on(const Program &program)
{
    Program copy = program;
    const sock_fprog whole = {static_cast<unsigned short>(copy.size()), copy.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &whole) == 0;
}

// In a process under `here`: whether something passes that `before` stops. Another exit code: it
// could not be found out.
enum { none_passes = 10, one_passes = 11 };

int compare(const std::vector<Program> &here, const Program &before)
{
    const pid_t child = fork();
    if (child == 0) {
        const StoppedCalls stopped = stopped_calls(before);
        for (const Program &program : here)
            if (!put_on(program))
                _exit(1);
        const auto passing = first_that_passes(stopped.calls);
        // Before _exit() a sanitizer calls sigaltstack(2).
        syscall(SYS_exit_group, !passing ? 2 : *passing ? one_passes : none_passes);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(TriedCalls, AreStoppedByTheSameFilter)
{
    for (const uint32_t answer :
         {refuse, SECCOMP_RET_ERRNO | ENOSYS, SECCOMP_RET_ERRNO | 0U, SECCOMP_RET_KILL_PROCESS,
          SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP}) {
        const Program program = only(SYS_getpriority, answer);
        EXPECT_EQ(none_passes, compare({program}, program)) << answer;
        EXPECT_EQ(none_passes, compare({only(SYS_sync, allow), program}, program)) << answer;
    }
}

TEST(TriedCalls, AreStoppedByAStricterFilter)
{
    Program list = only(SYS_exit_group, allow);
    list.back() = give(refuse);
    // What the process needs until it has its filter, and its parent after that; sanitizers, too.
    const std::vector<long> needed = {
        SYS_prctl, SYS_seccomp,      SYS_mmap,           SYS_munmap,     SYS_clone,
        SYS_poll,  SYS_ioctl,        SYS_close,          SYS_wait4,      SYS_futex,
        SYS_brk,   SYS_rt_sigaction, SYS_rt_sigprocmask, SYS_sigaltstack};
    for (const long number : needed)
        list.insert(list.begin() + 1,
                    {jump(BPF_JEQ, static_cast<uint32_t>(number), 0, 1), give(allow)});
    EXPECT_EQ(none_passes, compare({list}, only(SYS_getpriority, refuse)));
    EXPECT_EQ(one_passes, compare({only(SYS_getpriority, refuse)}, list));
}

TEST(TriedCalls, PassAnotherFilter)
{
    EXPECT_EQ(one_passes, compare({}, only(SYS_getpriority, refuse)));
    EXPECT_EQ(one_passes, compare({only(SYS_sync, refuse)}, only(SYS_getpriority, refuse)));
    EXPECT_EQ(one_passes,
              compare({only(SYS_getpriority, SECCOMP_RET_LOG)}, only(SYS_getpriority, refuse)));
    EXPECT_EQ(none_passes, compare({only(SYS_sync, refuse)}, only(SYS_sync, allow)));
}

TEST(TriedCalls, PassAFilterOfOtherArguments)
{
    const Program packet = by_argument(SYS_socket, 0, ~0U, AF_PACKET, refuse);
    EXPECT_EQ(none_passes, compare({packet}, packet));
    EXPECT_EQ(one_passes, compare({by_argument(SYS_socket, 0, ~0U, AF_INET, refuse)}, packet));
    EXPECT_EQ(none_passes, compare({only(SYS_socket, refuse)}, packet));
}

// A kernel without such calls ends the process.
bool has_calls_of_32_bit_programs()
{
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGSEGV, SIG_DFL); // a sanitizer's handler would exit
        long result = 20;         // getpid
        asm volatile("int $0x80" : "+a"(result) : : "r8", "r9", "r10", "r11", "memory");
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status);
}

TEST(TriedCalls, AreThoseOf32BitProgramsToo)
{
    Program of_64_bit = only(SYS_getpriority, refuse);
    const std::initializer_list<sock_filter> first = {
        load(offsetof(seccomp_data, arch)), jump(BPF_JEQ, AUDIT_ARCH_X86_64, 1, 0), give(allow)};
    of_64_bit.insert(of_64_bit.begin(), first);
    EXPECT_EQ(has_calls_of_32_bit_programs() ? one_passes : none_passes,
              compare({of_64_bit}, only(SYS_getpriority, refuse)));
}

TEST(TriedCalls, WithoutAListenerENOSYSIsNoProof)
{
    const Program no_listener = only(SYS_seccomp, refuse);
    const Program stopped = only(SYS_getpriority, refuse);
    EXPECT_EQ(none_passes, compare({no_listener, stopped}, stopped));
    EXPECT_EQ(one_passes, compare({no_listener}, stopped));
    const Program unknown = only(SYS_getpriority, SECCOMP_RET_ERRNO | ENOSYS);
    EXPECT_EQ(one_passes, compare({no_listener, unknown}, unknown));
}

TEST(TriedCalls, NeedFilters)
{
    EXPECT_EQ(2, compare({only(SYS_seccomp, refuse),
                          by_argument(SYS_prctl, 0, ~0U, PR_SET_SECCOMP, refuse)},
                         only(SYS_getpriority, refuse)));
}

} // namespace
} // namespace cryo::capture
