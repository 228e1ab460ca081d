// SPDX-License-Identifier: Apache-2.0
//
// The places in the capsule's code that make a system call which must be hooked. glibc has them as
// `mov $number, %eax; syscall`, sometimes with a register or two set between. They are replaced by
// a jump to a springboard, which calls the hook and jumps back.
//
//     long found = hook_sites(text, bytes);   // every executable mapping that appears
//
// RULE: no thread-local storage, raw system calls only.
#pragma once

#include <cstddef>

namespace cryo::capsule {

// The mapping must not be in use yet. The number of sites, or -errno.
long hook_sites(char *code, size_t bytes);

bool is_hooked(long number);

// Stands for the number at a site that makes whatever system call it is told to.
constexpr long any_call = 511;

// How many sites of this system call were hooked since the capsule was opened.
unsigned sites_found(long number);
void forget_sites();

} // namespace cryo::capsule
