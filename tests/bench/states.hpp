// SPDX-License-Identifier: Apache-2.0
//
// Typical memory contents of programs, made by small computations: what a checkpoint of them would
// hold. Five numerical codes, and "objects", the heap of a non-numerical program.
//
//     for (const State &s : make_states(16 << 20))
//         measure(s.name, s.bytes);
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cryo::bench {

struct State {
    std::string name;
    std::vector<uint8_t> bytes;
};

// Each has `size` bytes, a multiple of 1 MiB, with the same contents each time.
std::vector<State> make_states(size_t size);

} // namespace cryo::bench
