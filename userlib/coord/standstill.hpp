// SPDX-License-Identifier: Apache-2.0
//
// What does not go on in a checkpoint although its daemons speak: ranks at the cut that do not ask
// for their images, or do not go on from them, and images that do not grow, or grow without end.
//
//     Standstill standstill(request, reports, members);
//     if (auto why = standstill.at_cut(agreed)) ...        // to be asked regularly
//     if (auto why = standstill.of_images(pending)) ...
#pragma once

#include "coord/image_reports.hpp"

#include <chrono>
#include <optional>
#include <string>

namespace cryo::coord {

// Times longest_silence(): a disk may be slow to sync.
inline constexpr int image_patience = 12;

class Standstill
{
  public:
    Standstill(const nlohmann::json &request, const ImageReports &reports, const Members &members);

    // Whether the tree has finished the checkpoint is `agreed`.
    std::optional<std::string> at_cut(bool agreed);
    // No rank has gone on from the cut yet: `pending`.
    std::optional<std::string> of_images(bool pending) const;

  private:
    using Clock = std::chrono::steady_clock;

    const ImageReports &reports_;
    const Members &members_;
    std::chrono::seconds patience_;
    bool goes_on_;                   // the job does, after the checkpoint
    uint64_t rate_;                  // of copies, for all ranks of a node
    size_t steps_ = 0;               // of ranks, in what at_cut() has seen
    Clock::time_point stepped_ = {}; // when the last of them was seen
};

} // namespace cryo::coord
