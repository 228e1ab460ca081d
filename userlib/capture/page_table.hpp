// SPDX-License-Identifier: Apache-2.0
//
// What the pages of an image are, by their digests: so that the next image can say "as in that
// one". The digests are read out of the image where it has them; else its pages are read and
// hashed.
//
//     Result<PageTable> table = PageTable::of(image);
//     const image::Digest *there = table->find(page);
#pragma once

#include <span>
#include <vector>

#include "capture/runs.hpp"
#include "image/reader.hpp"

namespace cryo::capture {

struct PageDigest {
    uint64_t page = 0;
    image::Digest digest;
};

image::Digest digest_of_page(image::Bytes page);
// Of a page of zeros.
const image::Digest &zero_digest();

class PageTable
{
  public:
    // Rows point to digests.
    PageTable(const PageTable &) = delete;
    PageTable(PageTable &&) = default;
    PageTable &operator=(const PageTable &) = delete;
    PageTable &operator=(PageTable &&) = default;
    ~PageTable() = default;
    // Of the address space, what the image has from its bases included.
    static Result<PageTable> of(image::Image &image);

    // Null: it has no such page, or one of zeros.
    const image::Digest *find(uint64_t page) const;
    // The same, quicker for pages that ascend: `near` is kept by the caller, 0 at first.
    const image::Digest *find(uint64_t page, size_t &near) const;
    uint64_t size() const; // pages
    // The memory whose pages are the same in both.
    std::vector<Run> common_with(const PageTable &other) const;

  private:
    // So many are there as a rule that each by itself would take longer than all else.
    struct Row {
        uint64_t page, count;
        const PageDigest *digests; // of the image that has them, where their numbers may be others
        uint64_t end() const { return page + count; }
    };
    // Pages of an image that are, moved by so many, pages of the one that it is a base of.
    struct Wanted {
        uint64_t page, count;
        uint64_t moved; // modulo 2^64
    };
    PageTable() = default;
    void add_row(uint64_t page, uint64_t count, const PageDigest *digests);
    void add_rows(std::span<const PageDigest> entries, uint64_t moved);
    Result<void> take_level(image::Image &image, const std::vector<Wanted> &wanted,
                            std::vector<Wanted> &left);
    void sort_rows();

    std::vector<std::vector<PageDigest>> digests_; // of the images of the chain
    std::vector<Row> rows_;                        // ascending; none of zeros
};

} // namespace cryo::capture
