// SPDX-License-Identifier: Apache-2.0
//
// Writes the pages of one address space into an image, references to the pages left to the base,
// and the digests of the pages written.
//
//     PageDelta delta(plan.base_of(pid));
//     delta.write(writer, first_page, bytes);   // any number of times, each page once
//     delta.finish(writer, objects.take());
#pragma once

#include "capture/memory/delta_plan.hpp"
#include "look/runs.hpp"

#include <array>
#include <span>
#include <string_view>

namespace cryo::capture {

// The result of a tracker (capture/memory/tracker.hpp).
struct Unchanged {
    std::vector<Run> runs;                  // pages that have not changed since ...
    std::shared_ptr<const PageTable> since; // ... the image with these pages; null: unknown
    std::string_view tracker = "hashing";
    std::array<uint8_t, 16> token{}; // identifies what is watched from now on
    uint64_t mark = 0;               // its address in the program
    std::vector<Run> unsure;         // pages that the next image must read anyway
    bool audit = false;              // read and compare `runs` nevertheless
};

// The use of the digests of the pages: stored in the image for the next one, kept for an image that
// is written soon, or not needed.
enum class Digests { stored, kept, dropped };

class PageDelta
{
  public:
    explicit PageDelta(const DeltaPlan::Base *base, Digests digests = Digests::stored)
        : base_(base), digests_(digests)
    {}
    void use(Unchanged unchanged);

    // How many pages from this one on are known to be as in the base and need not be read; or how
    // many are not known to be.
    uint64_t known(uint64_t page, uint64_t most);
    uint64_t unknown(uint64_t page, uint64_t most);
    Result<void> leave(image::ImageWriter &writer, uint64_t first_page, uint64_t count);
    // Checks that known pages are really unchanged.
    bool audits() const { return unchanged_.audit; }
    Result<void> audit(uint64_t first_page, image::Bytes pages);

    // Returns how many pages went into the image itself.
    // `digests`: of these pages, if known.
    Result<uint64_t> write(image::ImageWriter &writer, uint64_t first_page, image::Bytes pages,
                           std::span<const image::Digest> digests = {});
    Result<void> finish(image::ImageWriter &writer, uint32_t object);
    bool stores() const { return digests_ == Digests::stored; }
    // The digests that were kept, also of pages that were left to the base.
    PageTable take_pages() { return PageTable::of(std::move(own_)); }

    uint64_t left() const { return left_; }
    uint64_t audited() const { return audited_; }

  private:
    enum class Kind { own, zero, base };
    Kind look(uint64_t page, const image::Digest &digest);
    size_t known_from(uint64_t address);

    const DeltaPlan::Base *base_;
    Digests digests_;
    Unchanged unchanged_;
    std::vector<Run> known_; // the part of unchanged_.runs that is in the base
    size_t run_ = 0;         // the one looked at last
    size_t near_base_ = 0, near_previous_ = 0, near_since_ = 0;
    uint64_t left_ = 0, read_ = 0, audited_ = 0;
    std::vector<PageDigest> own_;
    uint64_t pages_ = 0; // other than pages of zeros
    uint64_t changed_to_base_ = 0;
    uint64_t changed_to_previous_ = 0;
};

} // namespace cryo::capture
