// SPDX-License-Identifier: Apache-2.0
//
// The arena: the range of addresses that the capsule is confined to. It is reserved as a whole, so
// that neither the kernel nor the program puts anything there, and given out in pages.
//
//     if (!arena::reserve(arena::usual_place, why)) ...
//     char *place = arena::take(bytes, arena::Zone::Far);   // reserved, not mapped yet
//     arena::give_back(place, bytes);                       // whatever is mapped there goes
//
//     0          1 GiB                  64 GiB                            256 GiB
//     | near     | heap (brk)           | far                             |
//
// Code is near: its patched system calls reach their springboards with a 32-bit jump. Everything
// that may be large is far. Below the arena lies what Cryo keeps for itself (capsule::keep).
//
// RULE for this file's code: it runs with either world's thread-local storage, and so touches none;
// system calls are raw, no libc is called.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cryo::capsule {
struct Refusal;
}

namespace cryo::capsule::arena {

constexpr size_t page = 4096;

enum class Zone { Near, Far };

// Far from where the kernel puts programs, libraries and stacks, with or without randomization.
constexpr unsigned long usual_place = 42UL << 40;
bool reserve(unsigned long place, Refusal &why);
void release(); // unmaps all of it
void forget();  // it is not mapped, in a restored copy
uintptr_t start();
uintptr_t end();
bool contains(const void *address);
bool is_reserved();

char *take(size_t bytes, Zone zone, size_t alignment = page); // null when there is no room
bool claim(void *address, size_t bytes); // takes exactly this range; false if part of it is in use
void give_back(void *address, size_t bytes);

// The capsule's brk: as the system call.
long move_break(long wanted);

inline size_t whole_pages(size_t bytes)
{
    return (bytes + page - 1) & ~(page - 1);
}

} // namespace cryo::capsule::arena
