// SPDX-License-Identifier: Apache-2.0
//
// FreeRanges: tracks the free parts of an address range. First fit; adjacent ranges are merged.
//
//     FreeRanges free;
//     free.reset(from, to);
//     uintptr_t place = free.take(bytes, alignment);   // 0: no room
//     free.give(place, bytes);
//
// Fixed memory, its own lock, no thread-local storage: usable from either world.
#pragma once

#include "mpi/capsule/lock.hpp"

#include <cstddef>
#include <cstdint>

namespace cryo::capsule {

class FreeRanges
{
  public:
    void reset(uintptr_t from, uintptr_t to)
    {
        Hold hold(lock_);
        count_ = 1;
        ranges_[0] = {from, to};
    }

    // In a restored copy, before reset().
    void forget_lock() { lock_.forget(); }
    bool is_busy() const { return lock_.is_taken(); }

    uintptr_t take(size_t bytes, size_t alignment)
    {
        Hold hold(lock_);
        for (size_t i = 0; i < count_; i++) {
            const uintptr_t start = (ranges_[i].from + alignment - 1) & ~(alignment - 1);
            if (start + bytes <= ranges_[i].to && cut(i, start, start + bytes))
                return start;
        }
        return 0;
    }

    bool claim(uintptr_t start, size_t bytes)
    {
        Hold hold(lock_);
        for (size_t i = 0; i < count_; i++) {
            if (ranges_[i].from <= start && start + bytes <= ranges_[i].to)
                return cut(i, start, start + bytes);
        }
        return false;
    }

    // The range may already be free, wholly or in part: munmap allows that too.
    void give(uintptr_t start, size_t bytes)
    {
        Hold hold(lock_);
        uintptr_t from = start;
        uintptr_t to = start + bytes;
        size_t first = 0;
        while (first < count_ && ranges_[first].to < from)
            first++;
        size_t last = first;
        while (last < count_ && ranges_[last].from <= to) {
            from = from < ranges_[last].from ? from : ranges_[last].from;
            to = to > ranges_[last].to ? to : ranges_[last].to;
            last++;
        }
        if (last == first && !make_room(first))
            return; // table full: these addresses are never reused
        if (last > first + 1)
            remove(first + 1, last - first - 1);
        ranges_[first] = {from, to};
    }

  private:
    struct Range {
        uintptr_t from;
        uintptr_t to;
    };

    bool cut(size_t i, uintptr_t from, uintptr_t to)
    {
        const Range whole = ranges_[i];
        if (from > whole.from && to < whole.to) {
            if (!make_room(i + 1))
                return false;
            ranges_[i].to = from;
            ranges_[i + 1] = {to, whole.to};
        } else if (from > whole.from) {
            ranges_[i].to = from;
        } else if (to < whole.to) {
            ranges_[i].from = to;
        } else {
            remove(i, 1);
        }
        return true;
    }

    bool make_room(size_t at)
    {
        if (count_ == most)
            return false;
        for (size_t i = count_; i > at; i--)
            ranges_[i] = ranges_[i - 1];
        count_++;
        return true;
    }

    void remove(size_t at, size_t n)
    {
        count_ -= n;
        for (size_t i = at; i < count_; i++)
            ranges_[i] = ranges_[i + n];
    }

    static constexpr size_t most = 4096;
    Lock lock_;
    size_t count_ = 0;
    Range ranges_[most] = {};
};

} // namespace cryo::capsule
