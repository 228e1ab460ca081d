// SPDX-License-Identifier: Apache-2.0
// Functions of which the compiler makes calls by itself, for an agent that has no C library. This
// file is compiled so that it makes none of them here.
#include <cstddef>

#ifndef __clang__ // which makes none with -fno-builtin
#pragma GCC optimize("no-tree-loop-distribute-patterns")
#endif

extern "C" {

void *memcpy(void *to, const void *from, size_t size)
{
    void *at = to;
    asm volatile("rep movsb" : "+D"(at), "+S"(from), "+c"(size) : : "memory");
    return to;
}

void *memmove(void *to, const void *from, size_t size)
{
    auto *target = static_cast<unsigned char *>(to);
    const auto *source = static_cast<const unsigned char *>(from);
    if (target <= source || target >= source + size)
        return memcpy(to, from, size);
    while (size-- > 0)
        target[size] = source[size];
    return to;
}

void *memset(void *to, int byte, size_t size)
{
    void *at = to;
    asm volatile("rep stosb" : "+D"(at), "+c"(size) : "a"(byte) : "memory");
    return to;
}

int memcmp(const void *a, const void *b, size_t size)
{
    const auto *one = static_cast<const unsigned char *>(a);
    const auto *other = static_cast<const unsigned char *>(b);
    for (size_t i = 0; i < size; i++) {
        if (one[i] != other[i])
            return one[i] < other[i] ? -1 : 1;
    }
    return 0;
}
}
