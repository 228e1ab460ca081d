// SPDX-License-Identifier: Apache-2.0
//
// Writes the pages of one address space into an image, those that the base has left out, and the
// digests of those it wrote.
//
//     PageDelta delta(plan.base_of(pid));
//     delta.write(writer, first_page, bytes);   // any number of times, each page once
//     delta.finish(writer, objects.take());
#pragma once

#include "capture/delta_plan.hpp"

namespace cryo::capture {

class PageDelta
{
  public:
    explicit PageDelta(const DeltaPlan::Base *base) : base_(base) {}

    // How many pages went into the image itself.
    Result<uint64_t> write(image::ImageWriter &writer, uint64_t first_page,
                           image::MutableBytes pages);
    Result<void> finish(image::ImageWriter &writer, uint32_t object);

  private:
    enum class Kind { own, zero, base };
    Kind look(uint64_t page, image::Bytes bytes);

    const DeltaPlan::Base *base_;
    std::vector<PageDigest> own_;
    uint64_t pages_ = 0; // that are not zero
    uint64_t changed_to_base_ = 0;
    uint64_t changed_to_previous_ = 0;
};

} // namespace cryo::capture
