// SPDX-License-Identifier: Apache-2.0
//
// How much work a test does: CRYO_SOAK asks for a hundred times as much; sanitizers slow everything
// down and get a quarter.
//
//     for (uint64_t seed = 1; seed <= amount(300); seed++) ...
#pragma once

#include <cstdint>
#include <cstdlib>

namespace cryo::bookmark::sim {

inline uint64_t amount(uint64_t usual)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    usual /= 4;
#endif
    return getenv("CRYO_SOAK") ? usual * 100 : usual;
}

} // namespace cryo::bookmark::sim
