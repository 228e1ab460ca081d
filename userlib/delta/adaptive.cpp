// SPDX-License-Identifier: Apache-2.0
#include "delta/adaptive.hpp"

namespace cryo::delta {

namespace {

// Header, footer, head of a segment, records and index: whole pages.
constexpr uint64_t kImageCost = 5 * image::kPageSize;

bool wants_previous(const Policy &policy, const Situation &now)
{
    if (now.previous_is_base)
        return false;
    switch (policy.mode) {
    case image::DeltaMode::incremental:
        return true;
    case image::DeltaMode::differential:
        return false;
    case image::DeltaMode::adaptive:
        break;
    }
    // size(delta to base) / size(delta to previous) > B, without rounding
    auto to_base = static_cast<unsigned __int128>(delta_size(now.changed_to_base, now.block_size));
    auto to_previous =
        static_cast<unsigned __int128>(delta_size(now.changed_to_previous, now.block_size));
    return to_base * 1000 > to_previous * policy.threshold;
}

} // namespace

uint64_t delta_size(uint64_t changed, uint32_t block_size)
{
    return kImageCost + changed * (block_size + sizeof(image::Digest));
}

Choice choose(const Policy &policy, const Situation &now)
{
    if (now.images_of_base == 0)
        return Choice::complete;
    bool previous = wants_previous(policy, now);
    uint64_t changed = previous ? now.changed_to_previous : now.changed_to_base;
    uint32_t below = previous ? now.images_of_previous : now.images_of_base;
    // A delta of all blocks is a complete image; declaring it one ends the chain there.
    if (changed == now.blocks || below + 1 > policy.most_images)
        return Choice::complete;
    return previous ? Choice::previous : Choice::base;
}

} // namespace cryo::delta
