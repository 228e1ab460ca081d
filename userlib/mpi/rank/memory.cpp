// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/memory.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/stock/fatal.hpp"

#include <bit>
#include <new>

namespace cryo::mpi::rank {

namespace {

size_t order_of(size_t bytes, size_t smallest)
{
    const auto order = static_cast<size_t>(std::bit_width(bytes - 1));
    return bytes <= 1 || order < smallest ? smallest : order;
}

void *keep_or_die(size_t bytes)
{
    void *memory = capsule::keep(bytes);
    if (memory == nullptr)
        fatal("no memory for %zu bytes of messages that are under way at a checkpoint", bytes);
    return memory;
}

// Tells signal handlers that a list is being changed.
class Changing
{
  public:
    explicit Changing(std::atomic<int> &busy) : busy_(busy) { busy_++; }
    ~Changing() { busy_--; }
    Changing(const Changing &) = delete;
    Changing &operator=(const Changing &) = delete;

  private:
    std::atomic<int> &busy_;
};

} // namespace

void *Memory::small(size_t order)
{
    constexpr size_t block = size_t{1} << (largest + 4);
    const size_t bytes = size_t{1} << order;
    if (Free *found = free_[order]) {
        free_[order] = found->next;
        return found;
    }
    if (fresh_bytes_ < bytes) {
        fresh_ = static_cast<char *>(keep_or_die(block));
        fresh_bytes_ = block;
    }
    void *found = fresh_;
    fresh_ += bytes;
    fresh_bytes_ -= bytes;
    return found;
}

void *Memory::do_allocate(size_t bytes, size_t /*alignment*/)
{
    const Changing changing(busy_);
    const size_t order = order_of(bytes, smallest);
    if (order > largest)
        return keep_or_die(bytes);
    const capsule::Hold hold(lock_);
    return small(order);
}

void Memory::do_deallocate(void *memory, size_t bytes, size_t /*alignment*/)
{
    const Changing changing(busy_);
    const size_t order = order_of(bytes, smallest);
    if (order > largest) {
        capsule::unkeep(memory, bytes);
        return;
    }
    const capsule::Hold hold(lock_);
    auto *freed = static_cast<Free *>(memory);
    freed->next = free_[order];
    free_[order] = freed;
}

// Constructed once and never destroyed: the program's last exit functions may still call MPI.
Memory &memory()
{
    alignas(Memory) static char place[sizeof(Memory)];
    static Memory *made = new (place) Memory;
    return *made;
}

} // namespace cryo::mpi::rank
