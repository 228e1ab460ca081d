// SPDX-License-Identifier: Apache-2.0
//
// Finds the object behind a handle of the stock library (objects.hpp).
//
//     Directory directory;
//     directory.add(object);
//     Object *object = directory.find(real); // null: none has this handle
#pragma once

#include "mpi/capsule/capsule.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/stock/objects.hpp"

namespace cryo::mpi {

inline void *keep_or_die(size_t bytes)
{
    void *memory = capsule::keep(bytes);
    if (memory == nullptr)
        fatal("no memory for MPI handles");
    return memory;
}

// Maps the stock library's handles to ours: open addressing, linear probing.
class Directory
{
  public:
    Object *find(const void *real) const
    {
        if (table_ == nullptr)
            return nullptr;
        for (size_t i = place(real);; i = (i + 1) & (size_ - 1)) {
            if (table_[i] == nullptr || table_[i]->real == real)
                return table_[i];
        }
    }

    void add(Object *object)
    {
        if (2 * (count_ + 1) > size_)
            grow();
        put(object);
        count_++;
    }

    void remove(const Object *object)
    {
        if (table_ == nullptr)
            return;
        size_t hole = place(object->real);
        while (table_[hole] != object) {
            if (table_[hole] == nullptr)
                return;
            hole = (hole + 1) & (size_ - 1);
        }
        table_[hole] = nullptr;
        count_--;
        // Later entries may have been displaced by this one: insert them again.
        for (size_t i = (hole + 1) & (size_ - 1); table_[i] != nullptr; i = (i + 1) & (size_ - 1)) {
            Object *moved = table_[i];
            table_[i] = nullptr;
            put(moved);
        }
    }

    // The first entry at or after `from`, which is advanced past it.
    Object *next(size_t &from) const
    {
        while (from < size_) {
            if (Object *object = table_[from++])
                return object;
        }
        return nullptr;
    }

    void clear()
    {
        for (size_t i = 0; i < size_; i++)
            table_[i] = nullptr;
        count_ = 0;
    }

  private:
    size_t place(const void *real) const
    {
        return reinterpret_cast<uintptr_t>(real) * 0x9e3779b97f4a7c15 >> 32 & (size_ - 1);
    }

    void put(Object *object)
    {
        size_t i = place(object->real);
        while (table_[i] != nullptr)
            i = (i + 1) & (size_ - 1);
        table_[i] = object;
    }

    void grow()
    {
        Object **old = table_;
        const size_t old_size = size_;
        size_ = old_size == 0 ? 1024 : 2 * old_size;
        table_ = static_cast<Object **>(keep_or_die(size_ * sizeof(void *)));
        for (size_t i = 0; i < old_size; i++) {
            if (old[i] != nullptr)
                put(old[i]);
        }
        if (old != nullptr)
            capsule::unkeep(old, old_size * sizeof(void *));
    }

    Object **table_ = nullptr;
    size_t size_ = 0;
    size_t count_ = 0;
};

} // namespace cryo::mpi
