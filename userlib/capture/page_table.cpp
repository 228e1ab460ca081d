// SPDX-License-Identifier: Apache-2.0
#include "capture/page_table.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "capture/objects.hpp"
#include "image/little_endian.hpp"

namespace cryo::capture {

using namespace cryo::image;

namespace {

constexpr size_t page_size = image::kPageSize;
constexpr size_t piece_pages = 64;

bool by_page(const PageDigest &a, const PageDigest &b)
{
    return a.page < b.page;
}

std::vector<PageDigest>::const_iterator first_from(const std::vector<PageDigest> &pages,
                                                   uint64_t page)
{
    return std::lower_bound(pages.begin(), pages.end(), PageDigest{page, {}}, by_page);
}

// The entries of the record's object. Their number is bounded by what the image holds, not by what
// a number in it claims.
Result<std::vector<PageDigest>> stored_digests(Image &image, const PageDigests &about)
{
    constexpr size_t entry_size = 24;
    if (about.count > image.footer().blocks)
        return Error(EBADMSG, image.name() + ": has more digests than pages");
    const uint64_t bytes = about.count * entry_size;
    std::vector<uint8_t> stored((bytes + page_size - 1) / page_size * page_size);
    if (Result<void> got = image.read_pages(about.object, 0, stored); !got)
        return got.error();
    std::vector<PageDigest> out(about.count);
    for (size_t i = 0; i < out.size(); i++) {
        const uint8_t *entry = stored.data() + i * entry_size;
        out[i].page = load_le<uint64_t>(entry);
        out[i].digest = Digest::from_bytes(std::span<const uint8_t, 16>(entry + 8, 16));
        if (i > 0 && out[i].page <= out[i - 1].page)
            return Error(EBADMSG, image.name() + ": its digests are not in order");
    }
    return out;
}

// An image that was saved without digests: its own pages are read.
Result<void> hash_pages(Image &image, const Extent &extent, std::vector<PageDigest> &out)
{
    std::vector<uint8_t> bytes(piece_pages * page_size);
    for (uint64_t done = 0; done < extent.count;) {
        const uint64_t count = std::min<uint64_t>(piece_pages, extent.count - done);
        const MutableBytes piece(bytes.data(), count * page_size);
        if (Result<void> got = image.read_pages(extent.object, extent.page + done, piece); !got)
            return got;
        for (uint64_t i = 0; i < count; i++)
            out.push_back(
                {extent.page + done + i, digest_of_page(piece.subspan(i * page_size, page_size))});
        done += count;
    }
    return {};
}

} // namespace

Digest digest_of_page(Bytes page)
{
    return checksum128(page);
}

const Digest &zero_digest()
{
    static const Digest digest = digest_of_page(std::vector<uint8_t>(page_size));
    return digest;
}

Result<PageTable> PageTable::of(Image &image)
{
    std::optional<PageDigests> about;
    Result<void> read = image.for_each<PageDigests>([&](const PageDigests &found) {
        if (found.of == memory_object)
            about = found;
    });
    if (!read)
        return read.error();
    std::vector<PageDigest> own;
    if (about) {
        Result<std::vector<PageDigest>> stored = stored_digests(image, *about);
        if (!stored)
            return stored.error();
        own = std::move(*stored);
    }
    std::vector<Extent> extents;
    bool refers = false;
    read = image.extents([&](const Extent &extent) -> Result<void> {
        if (extent.object == memory_object) {
            extents.push_back(extent);
            refers |= extent.kind == ExtentKind::base;
        }
        return {};
    });
    if (!read)
        return read.error();
    PageTable below({});
    if (refers) {
        Result<Image *> base = image.base();
        Result<PageTable> table = base ? of(**base) : base.error();
        if (!table)
            return table;
        below = std::move(*table);
    }
    // Only what an extent says is there: a digest without a page, or a page of the base that this
    // image does not have any more, is no page. Where segments end, extents are not in order.
    std::sort(extents.begin(), extents.end(),
              [](const Extent &a, const Extent &b) { return a.page < b.page; });
    std::vector<PageDigest> pages;
    pages.reserve(own.size() + below.pages_.size());
    const auto copy = [&](const std::vector<PageDigest> &from, size_t &near, const Extent &extent,
                          uint64_t first) {
        // As a rule it is where the one before has ended.
        if (near == from.size() || from[near].page < first ||
            (near > 0 && from[near - 1].page >= first))
            near = static_cast<size_t>(first_from(from, first) - from.begin());
        for (; near < from.size() && from[near].page < first + extent.count; near++)
            pages.push_back({from[near].page - first + extent.page, from[near].digest});
    };
    size_t near_below = 0, near_own = 0;
    for (const Extent &extent : extents) {
        switch (extent.kind) {
        case ExtentKind::zero: // never asked for: zeros cost nothing in any image
            break;
        case ExtentKind::base:
            copy(below.pages_, near_below, extent, extent.source);
            break;
        case ExtentKind::data:
            if (about)
                copy(own, near_own, extent, extent.page);
            else if (Result<void> hashed = hash_pages(image, extent, pages); !hashed)
                return hashed.error();
            break;
        }
    }
    // It is sorted, if no extent covers another.
    if (!std::is_sorted(pages.begin(), pages.end(), by_page))
        std::sort(pages.begin(), pages.end(), by_page);
    return PageTable(std::move(pages));
}

const Digest *PageTable::find(uint64_t page, size_t &near) const
{
    for (size_t at = near; at < pages_.size() && at < near + 2; at++) {
        if (pages_[at].page == page) {
            near = at;
            return &pages_[at].digest;
        }
    }
    near = static_cast<size_t>(first_from(pages_, page) - pages_.begin());
    return near < pages_.size() && pages_[near].page == page ? &pages_[near].digest : nullptr;
}

std::vector<Run> PageTable::common_with(const PageTable &other) const
{
    std::vector<Run> runs;
    size_t near = 0;
    const Digest &zero = zero_digest();
    for (const PageDigest &one : pages_) {
        const Digest *there = &other == this ? &one.digest : other.find(one.page, near);
        if (there == nullptr || *there != one.digest || one.digest == zero)
            continue;
        const uint64_t start = one.page * page_size;
        if (!runs.empty() && runs.back().end == start)
            runs.back().end += page_size;
        else
            runs.push_back({start, start + page_size});
    }
    return runs;
}

const Digest *PageTable::find(uint64_t page) const
{
    const auto at = first_from(pages_, page);
    return at != pages_.end() && at->page == page ? &at->digest : nullptr;
}

} // namespace cryo::capture
