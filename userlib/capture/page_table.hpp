// SPDX-License-Identifier: Apache-2.0
//
// What the pages of an image are, by their digests: so that the next image can say "as in that
// one". The digests are read out of the image where it has them; else its pages are read and
// hashed.
//
//     Result<PageTable> table = PageTable::of(image);
//     const image::Digest *there = table->find(page);
#pragma once

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
    // Of the address space, what the image has from its bases included.
    static Result<PageTable> of(image::Image &image);

    // Null: it has no such page, or one of zeros.
    const image::Digest *find(uint64_t page) const;
    // The same, quicker for pages that ascend: `near` is kept by the caller, 0 at first.
    const image::Digest *find(uint64_t page, size_t &near) const;
    uint64_t size() const { return pages_.size(); }
    // The memory whose pages are the same in both.
    std::vector<Run> common_with(const PageTable &other) const;

  private:
    explicit PageTable(std::vector<PageDigest> pages) : pages_(std::move(pages)) {}

    std::vector<PageDigest> pages_; // ascending
};

} // namespace cryo::capture
