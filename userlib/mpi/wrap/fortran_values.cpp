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
constexpr size_t most_blocks = 1024; // two million attributes
constexpr size_t half = offsetof(FortranValue, second_half);
static_assert(sizeof(FortranValue) == 2 * half && block_bytes % sizeof(FortranValue) == 0);

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

enum class Place { elsewhere, record, first_half, second_half };

Place place_of(const void *word)
{
    const capsule::Hold hold(lock);
    for (size_t i = 0; i < block_count; i++) {
        const size_t offset =
            reinterpret_cast<uintptr_t>(word) - reinterpret_cast<uintptr_t>(blocks[i]);
        if (offset >= block_bytes)
            continue;
        const size_t inside = offset % sizeof(FortranValue);
        return inside == 0 ? Place::record : inside < half ? Place::first_half : Place::second_half;
    }
    return Place::elsewhere;
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
    return place_of(word) == Place::record ? static_cast<FortranValue *>(word) : nullptr;
}

// A pointer to a number, or to a byte of one, becomes one into the record's second half.
void *word_of_c(void *pointer)
{
    const Place place = place_of(pointer);
    return place == Place::record || place == Place::first_half
               ? static_cast<char *>(pointer) + half
               : pointer;
}

void *pointer_of_c(void *word)
{
    return place_of(word) == Place::second_half ? static_cast<char *>(word) - half : word;
}

void drop_fortran_value(FortranValue *value)
{
    const capsule::Hold hold(lock);
    value->next = unused;
    unused = value;
}

} // namespace cryo::mpi
