// SPDX-License-Identifier: Apache-2.0
#include "mpi/capsule/arena.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/free_ranges.hpp"
#include "mpi/capsule/refuse.hpp"
#include "sys/raw.hpp"

#include <cstdint>
#include <sys/mman.h>

namespace cryo::capsule {

namespace arena {

namespace {

constexpr uintptr_t gib = uintptr_t{1} << 30;
constexpr uintptr_t near_bytes = 1 * gib;
constexpr uintptr_t heap_end = 64 * gib;
constexpr uintptr_t all_bytes = 256 * gib;

uintptr_t base;
uintptr_t kept_base;
uintptr_t heap_now; // the capsule's break
FreeRanges near_free;
FreeRanges far_free;
FreeRanges kept_free;

uintptr_t number(const void *address)
{
    return reinterpret_cast<uintptr_t>(address);
}

bool reserve_range(uintptr_t start, size_t bytes)
{
    const long got =
        sys::call(SYS_mmap, start, bytes, PROT_NONE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    return !sys::failed(got) && static_cast<uintptr_t>(got) == start;
}

void make_empty(uintptr_t start, size_t bytes)
{
    sys::call(SYS_mmap, start, bytes, PROT_NONE,
              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
}

FreeRanges *zone_of(uintptr_t start, size_t bytes)
{
    const uintptr_t end = start + bytes;
    if (start >= base && end <= base + near_bytes)
        return &near_free;
    if (start >= base + heap_end && end <= base + all_bytes)
        return &far_free;
    return nullptr;
}

} // namespace

bool is_reserved()
{
    return base != 0;
}

bool contains(const void *address)
{
    return base != 0 && number(address) - base < all_bytes;
}

bool reserve(unsigned long place, Refusal &why)
{
    place &= ~(gib - 1);
    if (!reserve_range(place, all_bytes))
        return refuse(
            why,
            "the %lu GiB of addresses from %#lx that the MPI library would be loaded into "
            "are not free, or ulimit -v is too small; choose others with "
            "CRYO_CAPSULE_ADDRESS",
            all_bytes / gib, place);
    base = place;
    heap_now = base + near_bytes;
    near_free.reset(base, base + near_bytes);
    far_free.reset(base + heap_end, base + all_bytes);
    return true;
}

void release()
{
    sys::call(SYS_munmap, base, all_bytes);
    base = 0;
}

void forget()
{
    near_free.forget_lock();
    far_free.forget_lock();
    base = 0;
}

uintptr_t start()
{
    return base;
}

uintptr_t end()
{
    return base != 0 ? base + all_bytes : 0;
}

char *take(size_t bytes, Zone zone, size_t alignment)
{
    FreeRanges &ranges = zone == Zone::Near ? near_free : far_free;
    return reinterpret_cast<char *>(ranges.take(whole_pages(bytes), alignment));
}

bool claim(void *address, size_t bytes)
{
    FreeRanges *ranges = zone_of(number(address), whole_pages(bytes));
    return ranges != nullptr && ranges->claim(number(address), whole_pages(bytes));
}

void give_back(void *address, size_t bytes)
{
    bytes = whole_pages(bytes);
    FreeRanges *ranges = zone_of(number(address), bytes);
    make_empty(number(address), bytes);
    if (ranges != nullptr)
        ranges->give(number(address), bytes);
}

long move_break(long wanted)
{
    const uintptr_t start = base + near_bytes;
    const auto target = static_cast<uintptr_t>(wanted);
    if (target < start || target > base + heap_end)
        return static_cast<long>(heap_now);
    const uintptr_t mapped = whole_pages(heap_now - start) + start;
    const uintptr_t needed = whole_pages(target - start) + start;
    if (needed > mapped) {
        const long got = sys::call(SYS_mmap, mapped, needed - mapped, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
        if (sys::failed(got))
            return static_cast<long>(heap_now);
    } else if (needed < mapped) {
        make_empty(needed, mapped - needed);
    }
    heap_now = target;
    return wanted;
}

} // namespace arena

void *keep(size_t bytes)
{
    using namespace arena;
    bytes = whole_pages(bytes);
    if (kept_base == 0) {
        const uintptr_t place = usual_place - kept_bytes;
        if (!reserve_range(place, kept_bytes))
            return nullptr;
        kept_base = place;
        kept_free.reset(place, place + kept_bytes);
    }
    const uintptr_t start = kept_free.take(bytes, page);
    if (start == 0)
        return nullptr;
    const long got = sys::call(SYS_mmap, start, bytes, PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (sys::failed(got)) {
        unkeep(reinterpret_cast<void *>(start), bytes);
        return nullptr;
    }
    return reinterpret_cast<void *>(got);
}

void unkeep(void *memory, size_t bytes)
{
    bytes = arena::whole_pages(bytes);
    arena::make_empty(arena::number(memory), bytes);
    arena::kept_free.give(arena::number(memory), bytes);
}

bool is_keeping()
{
    return arena::kept_free.is_busy();
}

} // namespace cryo::capsule
