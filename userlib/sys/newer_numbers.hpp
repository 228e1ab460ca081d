// SPDX-License-Identifier: Apache-2.0
//
// Numbers of the kernel's that more than one source needs, and that the headers of older systems
// lack. They are its ABI, and never change.
//
//     sys::call(SYS_prctl, sys::pr_get_mdwe, 0, 0, 0, 0);
#pragma once

#include <asm/prctl.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace cryo::sys {

constexpr long epoll_pwait2_number = 441; // SYS_epoll_pwait2, Linux 5.11

constexpr int pr_set_mdwe = 65, pr_get_mdwe = 66;                 // Linux 6.3
constexpr unsigned mdwe_no_inherit = 2;                           // PR_MDWE_NO_INHERIT, Linux 6.6
constexpr int pr_set_memory_merge = 67, pr_get_memory_merge = 68; // Linux 6.4

constexpr int arch_get_xcomp_perm = 0x1022; // Linux 5.16

#ifdef SYS_epoll_pwait2
static_assert(epoll_pwait2_number == SYS_epoll_pwait2);
#endif
#ifdef PR_SET_MDWE
static_assert(pr_set_mdwe == PR_SET_MDWE && pr_get_mdwe == PR_GET_MDWE);
#endif
#ifdef PR_MDWE_NO_INHERIT
static_assert(mdwe_no_inherit == PR_MDWE_NO_INHERIT);
#endif
#ifdef PR_SET_MEMORY_MERGE
static_assert(pr_set_memory_merge == PR_SET_MEMORY_MERGE &&
              pr_get_memory_merge == PR_GET_MEMORY_MERGE);
#endif
#ifdef ARCH_GET_XCOMP_PERM
static_assert(arch_get_xcomp_perm == ARCH_GET_XCOMP_PERM);
#endif

} // namespace cryo::sys
