// SPDX-License-Identifier: Apache-2.0
//
// What a filter of system calls (seccomp), a program of classic BPF, answers to a call of which not
// every argument is known: all answers that some arguments could get. Nothing is executed.
//
//     const unsigned answers = possible_answers(filter.code, {SYS_clone, {0}});
//     if (answers == answer_allows)
//         // it lets clone(0, …) pass, whatever the other arguments are
#pragma once

#include <array>
#include <cstdint>
#include <linux/filter.h>
#include <optional>
#include <span>
#include <vector>

namespace cryo::capture {

// A filter as the kernel tells it.
struct CallFilter {
    std::vector<sock_filter> code;
    bool logs = false; // SECCOMP_FILTER_FLAG_LOG

    std::span<const sock_filter> program() const { return code; }
};

struct PartlyKnownCall {
    uint32_t number = 0;
    std::array<std::optional<uint64_t>, 6> arguments = {};
};

// A set of these. Whatever answer_other is, the call is not made: it ends the process, raises
// SIGSYS, asks another process, pretends to succeed, or cannot be found out.
constexpr unsigned answer_allows = 1;
constexpr unsigned answer_refuses = 2; // EPERM or ENOSYS
constexpr unsigned answer_other = 4;

// Of calls as 64-bit programs on x86-64 make them.
unsigned possible_answers(std::span<const sock_filter> program, const PartlyKnownCall &call);

// Whether it may ask a listener (SECCOMP_RET_USER_NOTIF), as far as its instructions show.
bool may_ask_listener(std::span<const sock_filter> program);

} // namespace cryo::capture
