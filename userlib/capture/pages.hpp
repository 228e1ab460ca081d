// SPDX-License-Identifier: Apache-2.0
//
// Which pages of a stopped program have contents of their own, and getting them into an image.
#pragma once

#include "base/fd.hpp"
#include "capture/page_delta.hpp"
#include "capture/proc.hpp"
#include "capture/regions.hpp"
#include "capture/runs.hpp"
#include "image/writer.hpp"

#include <future>

namespace cryo::capture {

class Frozen;

// Looks into /proc/PID/pagemap: by PAGEMAP_SCAN where the kernel has it, else page by page.
class PageMap
{
  public:
    static Result<PageMap> open(const Proc &proc);

    // Private pages with contents in [start, end): touched anonymous memory and modified copies of
    // file pages; neither holes nor the zero page nor file pages as they are.
    Result<std::vector<Run>> own_pages(uint64_t start, uint64_t end) const;
    // Pages that MADV_GUARD_INSTALL forbids to touch; none where the kernel does not tell.
    Result<std::vector<Run>> guards(uint64_t start, uint64_t end) const;
    // Pages that are not protected by a userfaultfd with WP_ASYNC. EPERM: not all of this is
    // registered with one.
    Result<std::vector<Run>> written(uint64_t start, uint64_t end) const;
    // Whether a userfaultfd, whoever has it, protects the page at this address from writes.
    bool is_protected(uint64_t address) const;
    // The same without holes; those that are told of are protected in the same pass. What is kept
    // was not written before, and is not protected by this: if it is written meanwhile, the next
    // look tells of it.
    struct Written {
        std::vector<Run> own, guards; // as own_pages() and guards() tell them
        std::vector<Run> all;         // with the zero page where that has been read
        std::vector<Run> kept;        // of the others those that are there
        std::vector<Run> copied = {}; // changed before, and copied then as they are (EarlyCopy)
    };
    Result<Written> protect_written(uint64_t start, uint64_t end) const;
    struct SoftDirtyBits {
        std::vector<Run> dirty; // where the bit is set, holes among them
        uint64_t pages = 0;     // that are there, or swapped out, dirty or not; as zeros too
    };
    Result<SoftDirtyBits> soft_dirty(uint64_t start, uint64_t end) const;
    // Whether pages of zeros that were only read are told from others.
    bool tells_zeros() const;
    // Of the others, those that no other process has too, or that are swapped out: after a fork,
    // what was written by somebody, or may have been.
    Result<std::vector<Run>> apart(uint64_t start, uint64_t end) const;

  private:
    struct Categories {
        uint64_t absent, all, any; // of a page: none of these, all of these, one of these
    };
    explicit PageMap(Fd fd) : fd_(std::move(fd)) {}
    Result<bool> scan(uint64_t start, uint64_t end, const Categories &wanted,
                      std::vector<Run> &runs) const;
    int scan_written(const Run &within, std::vector<Run> &runs) const;
    Result<void> protect_written(const Run &within, Written &found) const;
    // The pages of whose entries that is true.
    template <class Is>
    Result<std::vector<Run>> read(uint64_t start, uint64_t end, const Is &is) const;

    Fd fd_;
    mutable std::vector<std::future<void>> past_; // threads that have done their part
};

// The same for the address space of an image that is, or may become, one of a chain of deltas.
Result<uint64_t> save_changed(const std::vector<Run> &runs, Frozen &source,
                              image::ImageWriter &writer, PageDelta &delta,
                              bool zeros_behind_file = false, int protection = -1);

// Copies the runs into the image as pages of `object`, page number = address / 4096 − `shift`.
Result<uint64_t> save_runs(const std::vector<Run> &runs, Frozen &source, image::ImageWriter &writer,
                           uint32_t object, uint64_t shift, bool zeros_behind_file = false,
                           int protection = -1);

} // namespace cryo::capture
