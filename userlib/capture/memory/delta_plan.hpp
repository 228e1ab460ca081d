// SPDX-License-Identifier: Apache-2.0
//
// Chooses the image that a new one is a delta of, before anything is stopped.
//
//     Result<DeltaPlan> plan = DeltaPlan::make(options, {"context.412.8"}, 412);
//     const DeltaPlan::Base *base = plan->base_of(412);   // null: its image is complete
//
// Earlier decisions are stored in the images themselves: the previous image names its base and
// holds its measurements. docs/delta.md describes the rule.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/trust.hpp"
#include "capture/memory/page_table.hpp"
#include "image/records.hpp"
#include "image/snapshot.hpp"
#include "image/writer.hpp"
#include "look/runs.hpp"

namespace cryo::capture {

struct DeltaOptions {
    // Unset: the image is complete and has no digests.
    std::optional<image::DeltaMode> mode = {};
    // The image of the previous checkpoint; "": the newest image of the process in the directory of
    // the new one.
    std::string previous = {};
    uint32_t threshold = 1500; // of the adaptive mode, in thousandths
    uint32_t most_images = 16; // most images that an image may need, including itself
    // Most bytes to copy while a process is stopped, instead of making a copy of the process.
    // Unset: a tenth of its memory, but at least 16 MiB.
    std::optional<uint64_t> stage_memory = {};
};

class DeltaPlan
{
  public:
    // What has been watched since an image (capture/memory/tracker.hpp), and which pages must be
    // read nevertheless.
    struct Watched {
        std::array<uint8_t, 16> token{};
        uint64_t mark = 0; // its address in the program; 0: there is none
        std::vector<Run> unsure;
        bool needs_copy = false; // the changes can only be found with a copy
    };
    struct Base {
        image::BaseImage image;
        std::shared_ptr<const PageTable> pages; // of that image
        std::shared_ptr<const PageTable> previous_pages;
        image::Digest previous; // the previous checkpoint's image; may be the base itself
        Watched watched, previous_watched;
        std::string name;
        uint32_t images = 0; // how many the new image will need, including itself
        // Memory left to the base if it has not changed since the base, or since `previous`.
        std::vector<Run> left_by_base, left_by_previous;
        // Pages expected to change, if as many change as last time; 0: unknown.
        uint64_t expected = 0;
        uint64_t writes_per_s = 0; // bytes, measured on the previous image; 0: unknown
    };

    // A new image is never based on one that is replaced.
    struct Places {
        std::string target;      // of the new image
        std::string backup = {}; // of the image that is there now; "": it replaces none
    };
    // `owner_of`: in a user namespace, asks outside whose an image is
    // (capture/files/file_options.hpp).
    static Result<DeltaPlan> make(const DeltaOptions &options, const Places &places, pid_t root,
                                  const Trust::Ask &owner_of = {});

    bool wanted() const { return wanted_; }
    const Base *base_of(pid_t pid) const;
    const std::map<uint32_t, Base> &bases() const { return bases_; } // by pid
    // The images that the new ones will need.
    const std::vector<image::Digest> &needed() const { return needed_; }
    // A notice for the user: the chosen base, or why there is none.
    const std::string &notice() const { return notice_; }

  private:
    Result<void> choose_base(const DeltaOptions &options, const image::Snapshot &snapshot,
                             const image::SnapshotMember &member, const Places &places);

    std::shared_ptr<const Trust> trust_; // in images that nobody named
    bool wanted_ = false;
    std::map<uint32_t, Base> bases_; // by pid
    std::vector<image::Digest> needed_;
    std::string notice_;
};

} // namespace cryo::capture
