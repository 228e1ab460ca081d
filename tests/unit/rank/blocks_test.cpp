// SPDX-License-Identifier: Apache-2.0
// Whether an address is in one of many blocks of objects.
#include "mpi/stock/blocks.hpp"

#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <vector>

namespace cryo::capsule {

namespace {

constexpr size_t room = size_t{1} << 30;
constexpr size_t gap = 4096; // so that no two blocks touch

} // namespace

// From either end in turn, so that addresses neither rise nor fall.
void *keep(size_t bytes)
{
    static char *low = static_cast<char *>(mmap(
        nullptr, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
    static char *high = low + room;
    static bool from_above = false;
    from_above = !from_above;
    if (from_above)
        return high -= bytes + gap;
    char *got = low;
    low += bytes + gap;
    return got;
}

void unkeep(void *memory, size_t bytes)
{
    munmap(memory, bytes);
}

} // namespace cryo::capsule

namespace cryo::mpi {

void fatal(const char * /*format*/, ...)
{
    abort();
}

namespace {

uintptr_t number(const char *address)
{
    return reinterpret_cast<uintptr_t>(address);
}

TEST(Blocks, NoneContainsAnything)
{
    const Blocks blocks;
    EXPECT_FALSE(blocks.contain(0));
    EXPECT_FALSE(blocks.contain(number("text")));
}

TEST(Blocks, EachOfManyIsFoundAndNothingBesideThem)
{
    Blocks blocks;
    std::vector<char *> made;
    for (int i = 0; i < 1500; i++) // the list has to grow twice
        made.push_back(blocks.add());
    for (const char *block : made) {
        EXPECT_TRUE(blocks.contain(number(block)));
        EXPECT_TRUE(blocks.contain(number(block) + Blocks::bytes - 1));
        EXPECT_FALSE(blocks.contain(number(block) - 1));
        EXPECT_FALSE(blocks.contain(number(block) + Blocks::bytes));
    }
    EXPECT_FALSE(blocks.contain(0));
    EXPECT_FALSE(blocks.contain(UINTPTR_MAX));
}

} // namespace

} // namespace cryo::mpi
