// SPDX-License-Identifier: Apache-2.0
//
// Freezes a member without a copy of it: pages changed since its base are copied in the stop. No
// failure here is an error: a copy is made instead.
//
//     Staging staging(description, process, changes, common);
//     std::unique_ptr<Tracker> tracker = changes.begin_watching();
//     std::unique_ptr<Frozen> frozen = staging.freeze(*tracker, false);
//     if (!frozen)
//         ... staging.costs() tells which other method is best ...
#pragma once

#include "capture/member/member_process.hpp"
#include "capture/member/memory_changes.hpp"
#include "capture/memory/frozen.hpp"
#include "capture/memory/method.hpp"
#include "capture/memory/stage.hpp"
#include "capture/memory/tracker.hpp"
#include "capture/process/describe.hpp"

#include <memory>
#include <vector>

namespace cryo::capture {

class Staging
{
  public:
    Staging(const Description &d, MemberProcess &process, MemoryChanges &changes, Common &common)
        : d_(d), process_(process), changes_(changes), common_(common)
    {}
    Staging(const Staging &) = delete;
    Staging &operator=(const Staging &) = delete;

    // Null: that is impossible, or another method is better and the costs matter.
    std::unique_ptr<Frozen> freeze(Tracker &tracker, bool whatever_it_costs);
    const Costs &costs() const { return costs_; } // as estimated, as far as it came

    // The staged memory: pages copied in the stop, and before it.
    uint64_t pages() const { return pages_; }
    uint64_t early_pages() const { return early_pages_; }
    // Whether the early look must be checked after the program has resumed.
    bool is_unseen() const { return is_unseen_; }

  private:
    // Pages and guards of the mappings that are frozen.
    struct Contents {
        std::vector<Run> own, guards;
    };
    Result<Contents> look_at_contents(const Tracker &tracker, const std::vector<Run> &clean) const;
    std::vector<Run> places_of_agent(const Tracker &tracker) const;
    Result<std::vector<Run>> copy_changed(Tracker &tracker, Stage &stage, std::vector<Run> changed,
                                          std::vector<Run> unchanged);

    const Description &d_;
    MemberProcess &process_;
    MemoryChanges &changes_;
    Common &common_;
    Costs costs_;
    uint64_t pages_ = 0, early_pages_ = 0;
    bool is_unseen_ = false;
};

} // namespace cryo::capture
