// SPDX-License-Identifier: Apache-2.0
//
// Which image the next version is based on: ADCA, the adaptive choice between incremental (base =
// previous) and differential (base = first). Pure arithmetic on signatures' outcome; docs/delta.md
// has worked examples.
//
//     Choice c = choose(policy, {.blocks = 2048, .block_size = 4096,
//                                .changed_to_base = 40, .changed_to_previous = 12,
//                                .images_of_base = 1, .images_of_previous = 2});
#pragma once

#include <cstdint>

#include "image/checksum.hpp"
#include "image/records.hpp"

namespace cryo::delta {

struct Policy {
    image::DeltaMode mode = image::DeltaMode::adaptive;
    uint32_t threshold = 1500; // B, in thousandths
    uint32_t most_images = 16; // that a version may need, itself included
};

struct Situation {
    uint64_t blocks = 0; // of the version to be saved
    uint32_t block_size = 0;
    uint64_t changed_to_base = 0;
    uint64_t changed_to_previous = 0;
    uint32_t images_of_base = 0;     // that it needs, itself included; 0: there is no base
    uint32_t images_of_previous = 0; // likewise, of the previous version
    bool previous_is_base = false;
};

enum class Choice {
    complete, // needs no other image
    base,     // a delta to the base
    previous, // a delta to the previous version, which is the base from now on
};

// Size of a delta with so many changed blocks, before packing: blocks, their digests, and the fixed
// cost of any image. The fixed cost is included so that a version that did not change at all is
// no reason to rebase.
uint64_t delta_size(uint64_t changed, uint32_t block_size);

Choice choose(const Policy &policy, const Situation &now);

} // namespace cryo::delta
