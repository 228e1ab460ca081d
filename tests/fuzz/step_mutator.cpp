// SPDX-License-Identifier: Apache-2.0
//
// Mutations of an input that is a byte followed by steps of three bytes: kind, peer and detail.
// Some steps are followed by bytes of their own, which the fuzzer's usual mutations change.
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <random>

extern "C" size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

// Inserts, removes and swaps whole steps; otherwise the bytes after a change would lose meaning.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size,
                                          unsigned int seed)
{
    constexpr size_t length = 3;
    std::minstd_rand random(seed);
    const size_t steps = size > 1 ? (size - 1) / length : 0;
    if (steps < 2 || random() % 8 == 0)
        return LLVMFuzzerMutate(data, size, max_size);
    uint8_t *const at = data + 1 + random() % steps * length;
    uint8_t *const other = data + 1 + random() % steps * length;
    uint8_t *const end = data + size;
    switch (random() % 5) {
    case 0:
        std::swap_ranges(at, at + length, other);
        return size;
    case 1:
        memmove(at, at + length, static_cast<size_t>(end - at) - length);
        return size - length;
    case 2:
        at[random() % length] = static_cast<uint8_t>(random());
        return size;
    default: { // insert a step: a copy, or a random one
        if (size + length > max_size)
            return size;
        const std::array<uint8_t, length> step =
            random() % 2 != 0 ? std::array<uint8_t, length>{other[0], other[1], other[2]}
                              : std::array<uint8_t, length>{static_cast<uint8_t>(random()),
                                                            static_cast<uint8_t>(random() % 12),
                                                            static_cast<uint8_t>(random())};
        memmove(at + length, at, static_cast<size_t>(end - at));
        std::copy(step.begin(), step.end(), at);
        return size + length;
    }
    }
}
