// SPDX-License-Identifier: Apache-2.0
//
// Writes a member's memory into images: into its own, and what others have too into the first's.
//
//     MemoryWriter memory(description, process, freezing, common);
//     memory.use_delta(base);                    // if there is a base
//     memory.save_common(first, -1); memory.save_unfrozen(own, -1);     // while it stands still
//     ... freezing freezes the rest ...
//     memory.save_frozen(own);
//
// Or, while it stands still: memory.place_itself(own), and memory.save_frozen(own) when it runs
// again.
#pragma once

#include "capture/member/freezing.hpp"
#include "capture/member/member_process.hpp"
#include "capture/memory/delta_plan.hpp"
#include "capture/memory/frozen.hpp"
#include "capture/memory/page_delta.hpp"
#include "capture/process/describe.hpp"
#include "image/writer.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

namespace cryo::capture {

class MemoryWriter
{
  public:
    MemoryWriter(Description &d, MemberProcess &process, Freezing &freezing, const Common &common)
        : d_(d), process_(process), freezing_(freezing), common_(common)
    {}
    MemoryWriter(const MemoryWriter &) = delete;
    MemoryWriter &operator=(const MemoryWriter &) = delete;

    // Makes the address space part of a chain of deltas. Must precede any saving.
    void use_delta(const DeltaPlan::Base *base, Digests digests = Digests::stored)
    {
        delta_.emplace(base, digests);
    }
    const std::optional<PageDelta> &delta() const { return delta_; }
    PageTable take_pages() { return delta_->take_pages(); }

    // Memory that other processes have too.
    bool has_common() const { return !d_.shared_objects.empty() || !d_.shared.empty(); }
    // While it is stopped: save shared memory into the first process's image, and the other memory
    // that fork does not freeze into its own.
    Result<void> save_common(image::ImageWriter &writer, int device);
    Result<void> save_unfrozen(image::ImageWriter &writer, int device);
    // As Freezing::freeze_itself(), but the memory goes into the image's file
    // (ImageWriter::place()); then the process may resume. Shared memory must have been saved
    // before.
    Result<void> place_itself(image::ImageWriter &writer);
    bool is_placed() const { return is_placed_; }
    // Saves the frozen memory, unless it is placed already.
    Result<void> save_frozen(image::ImageWriter &writer);
    // How many pages were saved.
    uint64_t pages() const { return pages_; }

  private:
    Result<void> while_served(int device, const std::function<Result<void>(Frozen &)> &save);
    Result<void> save_region(image::Region &region, Frozen &source, image::ImageWriter &writer);
    Result<std::vector<Run>> look_at_region(const image::Region &region, Frozen &source);
    Result<std::vector<PageSource::Part>> parts_to_place();
    Result<uint64_t> save_pages(const std::vector<Run> &runs, Frozen &source,
                                image::ImageWriter &writer, bool zeros_behind_file = false,
                                int protection = -1);
    Result<void> save_private(image::ImageWriter &writer);

    Description &d_;
    MemberProcess &process_;
    Freezing &freezing_;
    const Common &common_;
    std::optional<PageDelta> delta_;
    uint64_t pages_ = 0;
    bool is_placed_ = false; // the memory is already in the image's file
};

} // namespace cryo::capture
