// SPDX-License-Identifier: Apache-2.0
//
// Memory for the rank engine, from capsule::keep: not from the program's heap, inside which the
// program may be stopped, nor from the library's, which is not saved.
//
//     bookmark::Rank::Config config{.memory = &memory()};
//
// Block sizes are powers of two; a freed block is kept for the next request of its size.
#pragma once

#include "mpi/capsule/lock.hpp"

#include <atomic>
#include <memory_resource>

namespace cryo::mpi::rank {

class Memory : public std::pmr::memory_resource
{
  public:
    // A signal handler that finds this true must not take memory.
    bool busy() const { return busy_ != 0; }

  private:
    static constexpr size_t smallest = 6; // 64 bytes
    static constexpr size_t largest = 16; // beyond that, whole pages from capsule::keep
    struct Free {
        Free *next;
    };

    void *do_allocate(size_t bytes, size_t alignment) override;
    void do_deallocate(void *memory, size_t bytes, size_t alignment) override;
    bool do_is_equal(const memory_resource &other) const noexcept override
    {
        return this == &other;
    }
    void *small(size_t order);

    std::atomic<int> busy_{0};
    capsule::Lock lock_;
    Free *free_[largest + 1] = {};
    char *fresh_ = nullptr;
    size_t fresh_bytes_ = 0;
};

Memory &memory();

} // namespace cryo::mpi::rank
