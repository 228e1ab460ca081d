// SPDX-License-Identifier: Apache-2.0
//
// The blocks of memory that objects lie in (objects.hpp), and whether an address is in one of them.
//
//     Blocks blocks;
//     char *block = blocks.add();             // zero-filled; never freed
//     if (blocks.contain(address))
#pragma once

#include "mpi/stock/directory.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cryo::mpi {

class Blocks
{
  public:
    static constexpr size_t bytes = 64 * 1024;

    char *add()
    {
        if (count_ == size_)
            grow();
        auto *block = static_cast<char *>(keep_or_die(bytes));
        const auto start = reinterpret_cast<uintptr_t>(block);
        size_t at = count_++;
        for (; at > 0 && starts_[at - 1] > start; at--)
            starts_[at] = starts_[at - 1];
        starts_[at] = start;
        return block;
    }

    bool contain(uintptr_t address) const
    {
        const uintptr_t *after = std::upper_bound(starts_, starts_ + count_, address);
        return after != starts_ && address - after[-1] < bytes;
    }

  private:
    void grow()
    {
        uintptr_t *old = starts_;
        const size_t old_size = size_;
        size_ = old_size == 0 ? 512 : 2 * old_size;
        starts_ = static_cast<uintptr_t *>(keep_or_die(size_ * sizeof(uintptr_t)));
        for (size_t i = 0; i < old_size; i++)
            starts_[i] = old[i];
        if (old != nullptr)
            capsule::unkeep(old, old_size * sizeof(uintptr_t));
    }

    uintptr_t *starts_ = nullptr; // ascending
    size_t size_ = 0;
    size_t count_ = 0;
};

} // namespace cryo::mpi
