// SPDX-License-Identifier: Apache-2.0
//
// The layout that the restorer's flat binary shares with the code that places it
// (restorer/enter.cpp, and the restorer itself in a copy of a process).
//
// The area, one mapping outside all others: | plan | code | scratch | stacks of the threads |
// System calls only.
#pragma once

#include "restorer/plan.hpp"
#include "sys/page.hpp"
#include "sys/raw.hpp"

#include <cstdint>
#include <linux/mman.h>

namespace cryo::restore {

constexpr uint64_t stack_size = 16384; // of each thread, until it resumes
constexpr uint64_t scratch_size = 65536 + max_slots * 8;

inline uint64_t round_up(uint64_t n)
{
    return (n + sys::page_size - 1) & ~(sys::page_size - 1);
}

struct AreaLayout { // from the start of the area
    uint64_t code_at, scratch_at, stacks_at, size;
};

inline AreaLayout lay_out(const Header &plan, uint64_t code_size)
{
    AreaLayout layout = {};
    layout.code_at = round_up(plan.size);
    layout.scratch_at = layout.code_at + round_up(code_size);
    layout.stacks_at = layout.scratch_at + round_up(scratch_size);
    layout.size = layout.stacks_at + plan.thread_count * stack_size;
    return layout;
}

// Maps an area of `size` bytes that is free here and will be free in the restored process. 0: there
// is none.
inline uint64_t map_area(const Header *plan, uint64_t size)
{
    constexpr uint64_t search_start =
        0x200000000000; // far from where Linux puts anything by itself
    constexpr uint64_t search_end = 0x7ff000000000;
    const auto *avoid =
        reinterpret_cast<const Range *>(reinterpret_cast<const char *>(plan) + plan->avoid);
    for (uint64_t at = search_start; at + size < search_end;) {
        uint64_t next = 0;
        for (uint64_t i = 0; i < plan->avoid_count; i++) {
            if (avoid[i].start < at + size && at < avoid[i].end && avoid[i].end > next)
                next = avoid[i].end;
        }
        if (next == 0) {
            const long got = sys::call(SYS_mmap, at, size, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (got == static_cast<long>(at))
                return at;
            next = at + size;
        }
        at = round_up(next);
    }
    return 0;
}

// Plan and code are in their places, and the rest of the area is zero.
[[noreturn]] inline void enter_area(uint64_t area, const AreaLayout &layout)
{
    asm volatile("movq %[stack], %%rsp\n\t"
                 "xorl %%ebp, %%ebp\n\t"
                 "call *%[entry]\n\t"
                 "hlt"
                 :
                 : [stack] "r"(area + layout.stacks_at), [entry] "a"(area + layout.code_at),
                   "D"(area), "S"(area), "d"(layout.size), "c"(area + layout.scratch_at)
                 : "memory");
    __builtin_unreachable();
}

} // namespace cryo::restore
