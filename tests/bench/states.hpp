// SPDX-License-Identifier: Apache-2.0
//
// Memory as programs leave it, made by small computations: what a checkpoint of such a program
// would hold. Five numerical codes, and "objects", the heap of a program that does not compute.
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

// Each has `size` bytes, a multiple of 1 MiB. The same bytes each time.
std::vector<State> make_states(size_t size);

} // namespace cryo::bench
