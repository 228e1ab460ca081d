// SPDX-License-Identifier: Apache-2.0
//
// Finds a stopped program's pages with contents of their own and writes them to an image.
#pragma once

#include "base/fd.hpp"
#include "capture/memory/page_delta.hpp"
#include "image/writer.hpp"
#include "look/proc.hpp"
#include "look/regions.hpp"
#include "look/runs.hpp"

#include <future>

namespace cryo::capture {

class Frozen;

// Reads /proc/PID/pagemap: by PAGEMAP_SCAN if the kernel has it, else page by page.
class PageMap
{
  public:
    static Result<PageMap> open(const Proc &proc);
    // Whether the kernel has PAGEMAP_SCAN; without it, holes take as long as pages.
    bool kernel_scans() const;

    // Private pages with contents in [start, end): touched anonymous memory and modified copies of
    // file pages; no holes, no zero page, no unmodified file pages.
    Result<std::vector<Run>> own_pages(uint64_t start, uint64_t end) const;
    // Pages made inaccessible by MADV_GUARD_INSTALL; none if the kernel does not report them.
    Result<std::vector<Run>> guards(uint64_t start, uint64_t end) const;
    // Pages not protected by a userfaultfd with WP_ASYNC. EPERM: part of the range is not
    // registered with one.
    Result<std::vector<Run>> written(uint64_t start, uint64_t end) const;
    // Whether a userfaultfd of any process protects the page at this address from writes.
    bool is_protected(uint64_t address) const;
    // As written(), without holes, and protects the reported pages in the same pass. Pages in
    // `kept` were unwritten before and are not protected here: if they are written meanwhile, the
    // next look reports them.
    struct Written {
        std::vector<Run> own, guards; // as from own_pages() and guards()
        std::vector<Run> all;         // including zero pages that have been read
        std::vector<Run> kept;        // pages that are there and were not written
        std::vector<Run> copied = {}; // changed before, and copied since (EarlyCopy)
    };
    Result<Written> protect_written(uint64_t start, uint64_t end) const;
    struct SoftDirtyBits {
        std::vector<Run> dirty; // pages with the bit set, including holes
        uint64_t pages = 0;     // pages present or swapped out, dirty or not, including zero pages
    };
    Result<SoftDirtyBits> soft_dirty(uint64_t start, uint64_t end) const;
    // Whether zero pages that were only read can be told from others.
    bool tells_zeros() const;
    // Non-dirty pages that no other process has, or that are swapped out: after a fork, pages that
    // were or may have been written.
    Result<std::vector<Run>> apart(uint64_t start, uint64_t end) const;

  private:
    struct Categories {
        uint64_t absent, all, any; // none of the first, all of the second, any of the third
    };
    explicit PageMap(Fd fd) : fd_(std::move(fd)) {}
    Result<bool> scan(uint64_t start, uint64_t end, const Categories &wanted,
                      std::vector<Run> &runs) const;
    int scan_written(const Run &within, std::vector<Run> &runs) const;
    Result<void> protect_written(const Run &within, Written &found) const;
    // The pages whose entries satisfy `is`.
    template <class Is>
    Result<std::vector<Run>> read(uint64_t start, uint64_t end, const Is &is) const;

    Fd fd_;
    mutable std::vector<std::future<void>> past_; // of threads that have finished their work
};

// As save_runs(), for an address space that is or may become part of a chain of deltas.
Result<uint64_t> save_changed(const std::vector<Run> &runs, Frozen &source,
                              image::ImageWriter &writer, PageDelta &delta,
                              bool zeros_behind_file = false, int protection = -1);

// Copies the runs into the image as pages of `object`, page number = address / 4096 − `shift`.
Result<uint64_t> save_runs(const std::vector<Run> &runs, Frozen &source, image::ImageWriter &writer,
                           uint32_t object, uint64_t shift, bool zeros_behind_file = false,
                           int protection = -1);

} // namespace cryo::capture
