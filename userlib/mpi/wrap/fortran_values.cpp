// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/fortran_values.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/lock.hpp"

#include <cstddef>
#include <cstdint>

namespace cryo::mpi {

namespace {

constexpr size_t block_bytes = size_t{64} << 10;
constexpr size_t in_a_block = block_bytes / sizeof(FortranValue);
constexpr size_t most_blocks = 1024; // four million attributes

capsule::Lock lock;
FortranValue *blocks[most_blocks];
size_t block_count;
FortranValue *unused;

bool grow()
{
    if (block_count == most_blocks)
        return false;
    auto *block = static_cast<FortranValue *>(capsule::keep(block_bytes));
    if (block == nullptr)
        return false;
    for (size_t i = 0; i < in_a_block; i++)
        block[i].next = i + 1 < in_a_block ? &block[i + 1] : nullptr;
    unused = block;
    blocks[block_count++] = block;
    return true;
}

} // namespace

FortranValue *make_fortran_value(long number)
{
    const capsule::Hold hold(lock);
    if (unused == nullptr && !grow())
        return nullptr;
    FortranValue *made = unused;
    unused = made->next;
    made->number = number;
    return made;
}

FortranValue *fortran_value(void *word)
{
    const capsule::Hold hold(lock);
    const auto address = reinterpret_cast<uintptr_t>(word);
    for (size_t i = 0; i < block_count; i++) {
        if (address - reinterpret_cast<uintptr_t>(blocks[i]) < block_bytes)
            return static_cast<FortranValue *>(word);
    }
    return nullptr;
}

void drop_fortran_value(FortranValue *value)
{
    const capsule::Hold hold(lock);
    value->next = unused;
    unused = value;
}

} // namespace cryo::mpi
