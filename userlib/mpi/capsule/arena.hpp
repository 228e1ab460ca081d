// SPDX-License-Identifier: Apache-2.0
//
// The arena: the address range that the capsule is confined to. It is reserved as a whole, so that
// neither the kernel nor the program maps anything there, and handed out in pages.
//
//     if (!arena::reserve(arena::usual_place, why)) ...
//     char *place = arena::take(bytes, arena::Zone::Far);   // reserved, not mapped yet
//     arena::give_back(place, bytes);                       // unmaps whatever is there
//
//     0          1 GiB                  64 GiB                            256 GiB
//     | near     | heap (brk)           | far                             |
//
// Code is near: its patched system calls reach their springboards with a 32-bit jump. Potentially
// large allocations are far. Cryo's own memory lies below the arena (capsule::keep).
//
// RULE for this file: its code runs with either world's thread-local storage, and so uses none;
// system calls are raw, and no libc function is called.
#pragma once

#include "sys/page.hpp"

#include <cstddef>
#include <cstdint>

namespace cryo::capsule {
struct Refusal;
}

namespace cryo::capsule::arena {

constexpr size_t page = sys::page_size;

enum class Zone { Near, Far };

// Far from where the kernel puts programs, libraries and stacks, with or without randomization.
constexpr unsigned long usual_place = 42UL << 40;
bool reserve(unsigned long place, Refusal &why);
void release(); // unmaps the whole arena
void forget();  // in a restored copy, where it is not mapped
uintptr_t start();
uintptr_t end();
bool contains(const void *address);
bool is_reserved();

char *take(size_t bytes, Zone zone, size_t alignment = page); // null when there is no room
bool claim(void *address, size_t bytes); // takes exactly this range; false if part of it is in use
void give_back(void *address, size_t bytes);

// brk for the capsule, with the system call's semantics.
long move_break(long wanted);

inline size_t whole_pages(size_t bytes)
{
    return (bytes + page - 1) & ~(page - 1);
}

} // namespace cryo::capsule::arena
