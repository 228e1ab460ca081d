// SPDX-License-Identifier: Apache-2.0
//
// Which image a new one is a delta of, decided before anything is stopped.
//
//     Result<DeltaPlan> plan = DeltaPlan::make(options, "context.412.8", 412);
//     const DeltaPlan::Base *base = plan->base_of(412);   // null: its image is complete
//
// The images themselves are the memory of what was decided before: the previous one names its base,
// and has what it measured. docs/delta.md tells the rule.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "capture/page_table.hpp"
#include "capture/runs.hpp"
#include "image/records.hpp"
#include "image/snapshot.hpp"
#include "image/writer.hpp"

namespace cryo::capture {

struct DeltaOptions {
    // None: the image is complete and has no digests.
    std::optional<image::DeltaMode> mode = {};
    // The image of the checkpoint before; "": the newest one of the process in the directory where
    // the new one goes.
    std::string previous = {};
    uint32_t threshold = 1500; // of the adaptive mode, in thousandths
    uint32_t most_images = 16; // that an image may need, itself included
    // Bytes that may be copied while a process stands still, instead of making a copy of it; none:
    // a tenth of its memory, and 16 MiB at least.
    std::optional<uint64_t> stage_memory = {};
};

class DeltaPlan
{
  public:
    // What is watched since an image (capture/tracker.hpp), and what of it has to be read
    // nevertheless.
    struct Watched {
        std::array<uint8_t, 16> token{};
        uint64_t mark = 0; // where the program has it; 0: nowhere
        std::vector<Run> unsure;
        bool needs_copy = false; // to find out what has changed
    };
    struct Base {
        image::BaseImage image;
        std::shared_ptr<const PageTable> pages; // of that image
        std::shared_ptr<const PageTable> previous_pages;
        image::Digest previous; // the image of the checkpoint before; may be the base itself
        Watched watched, previous_watched;
        std::string name;
        uint32_t images = 0; // that the new image will need, itself included
        // Memory that is left to the base where it has not changed since it, or since `previous`.
        std::vector<Run> left_by_base, left_by_previous;
        // Pages that will have changed, if as many do as before; 0: not known.
        uint64_t expected = 0;
        uint64_t writes_per_s = 0; // bytes, as the image before was written; 0: not known
    };

    // `target`: where the new image goes; it is never based on what it replaces.
    static Result<DeltaPlan> make(const DeltaOptions &options, const std::string &target,
                                  pid_t root);

    bool wanted() const { return wanted_; }
    const Base *base_of(pid_t pid) const;
    const std::map<uint32_t, Base> &bases() const { return bases_; } // by pid
    // What a person should know: on which image, or why on none.
    const std::string &notice() const { return notice_; }

  private:
    Result<void> choose_base(const DeltaOptions &options, const image::Snapshot &snapshot,
                             const image::SnapshotMember &member, const std::string &target);

    bool wanted_ = false;
    std::map<uint32_t, Base> bases_; // by pid
    std::string notice_;
};

} // namespace cryo::capture
