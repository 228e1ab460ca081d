// SPDX-License-Identifier: Apache-2.0
//
// Code locations in the capsule that make a system call which must be hooked. In glibc these are
// `mov $number, %eax; syscall`, sometimes with register moves between. Each is replaced by a jump
// to a springboard, which calls the hook and jumps back.
//
//     long found = hook_sites(text, bytes);   // for every new executable mapping
//
// RULE: no thread-local storage, raw system calls only.
#pragma once

#include <cstddef>

namespace cryo::capsule {

// The mapping must not be in use yet. Returns the number of sites, or -errno.
long hook_sites(char *code, size_t bytes);

bool is_hooked(long number);

// Stands for the number at a site that makes any system call, with the number in a variable.
constexpr long any_call = 511;

// Number of sites of this system call hooked since the capsule was opened.
unsigned sites_found(long number);
void forget_sites();

} // namespace cryo::capsule
