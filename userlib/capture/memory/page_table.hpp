// SPDX-License-Identifier: Apache-2.0
//
// The digests of an image's pages, so that the next image can refer to equal pages of this
// one. They are read from the image if it stores them; otherwise its pages are read and
// hashed.
//
//     Result<PageTable> table = PageTable::of(image);
//     const image::Digest *there = table->find(page);
#pragma once

#include <span>
#include <vector>

#include "image/reader.hpp"
#include "look/runs.hpp"

namespace cryo::capture {

struct PageDigest {
    uint64_t page = 0;
    image::Digest digest;
};

image::Digest digest_of_page(image::Bytes page);
// The digest of a page of zeros.
const image::Digest &zero_digest();

class PageTable
{
  public:
    // Not copyable: rows point into digests_.
    PageTable(const PageTable &) = delete;
    PageTable(PageTable &&) = default;
    PageTable &operator=(const PageTable &) = delete;
    PageTable &operator=(PageTable &&) = default;
    ~PageTable() = default;
    // Covers the address space, including pages that the image takes from its bases.
    static Result<PageTable> of(image::Image &image);
    // None of them is of a page of zeros.
    static PageTable of(std::vector<PageDigest> digests);

    // Null: there is no such page, or it is all zeros.
    const image::Digest *find(uint64_t page) const;
    // Faster for ascending pages: `near` is kept by the caller, 0 at first.
    const image::Digest *find(uint64_t page, size_t &near) const;
    uint64_t size() const; // pages
    // The memory whose pages are equal in both.
    std::vector<Run> common_with(const PageTable &other) const;

  private:
    // Pages are usually so many that handling each one separately would dominate the time.
    struct Row {
        uint64_t page, count;
        const PageDigest *digests; // of the image that holds them, where page numbers may differ
        uint64_t end() const { return page + count; }
    };
    // Pages of a base image that, shifted by `moved`, are pages of the dependent image.
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
    std::vector<Row> rows_;                        // ascending; without pages of zeros
};

} // namespace cryo::capture
