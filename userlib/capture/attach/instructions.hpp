// SPDX-License-Identifier: Apache-2.0
//
// Instructions of a program that make system calls of ours in it, before anything of ours is there:
// `syscall; ret`, and what ends a signal handler, `mov $15, %eax; syscall`. Every C library has
// both.
#pragma once

#include "base/remote_address.hpp"
#include "base/result.hpp"
#include "look/proc.hpp"

namespace cryo::capture {

struct Instructions {
    RemoteAddress call;      // syscall; ret
    RemoteAddress sigreturn; // mov $__NR_rt_sigreturn, %rax; syscall
};

Result<Instructions> find_instructions(const Proc &proc);

} // namespace cryo::capture
