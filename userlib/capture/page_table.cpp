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
    // Pieces that are so many pages and so many entries.
    std::vector<uint8_t> piece(entry_size / 8 * piece_pages * page_size);
    std::vector<PageDigest> out;
    out.reserve(about.count);
    for (uint64_t done = 0; done < bytes; done += piece.size()) {
        const uint64_t most = std::min<uint64_t>(piece.size(), bytes - done);
        const MutableBytes part(piece.data(), (most + page_size - 1) / page_size * page_size);
        if (Result<void> got = image.read_pages(about.object, done / page_size, part); !got)
            return got.error();
        for (const uint8_t *entry = piece.data(); entry < piece.data() + most;
             entry += entry_size) {
            const auto page = load_le<uint64_t>(entry);
            if (!out.empty() && page <= out.back().page)
                return Error(EBADMSG, image.name() + ": its digests are not in order");
            out.push_back({page, Digest::from_bytes(std::span<const uint8_t, 16>(entry + 8, 16))});
        }
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

namespace {

// What an image has of the address space by itself.
struct Level {
    bool has_digests = false;
    std::vector<PageDigest> own; // ascending
    std::vector<Extent> extents; // ascending
};

Result<Level> level_of(Image &image)
{
    Level level;
    PageDigests about;
    Result<void> read = image.for_each<PageDigests>([&](const PageDigests &found) {
        if (found.of == memory_object) {
            about = found;
            level.has_digests = true;
        }
    });
    if (read && level.has_digests) {
        Result<std::vector<PageDigest>> stored = stored_digests(image, about);
        if (!stored)
            return stored.error();
        level.own = std::move(*stored);
    }
    if (read)
        read = image.extents([&](const Extent &extent) -> Result<void> {
            if (extent.object == memory_object)
                level.extents.push_back(extent);
            return {};
        });
    if (!read)
        return read.error();
    // Where segments end, extents are not in order.
    const auto by_first = [](const Extent &a, const Extent &b) { return a.page < b.page; };
    if (!std::is_sorted(level.extents.begin(), level.extents.end(), by_first))
        std::sort(level.extents.begin(), level.extents.end(), by_first);
    return level;
}

// Pages of an image that are, moved by so many, pages of the one that it is a base of.
struct Wanted {
    uint64_t page, count;
    uint64_t moved; // modulo 2^64
};

// Only what an extent says is there: a digest without a page, or a page of the base that this image
// does not have any more, is no page. `left`: what is left to the base.
Result<void> take_level(Image &image, const Level &level, const std::vector<Wanted> &wanted,
                        std::vector<PageDigest> &pages, std::vector<Wanted> &left)
{
    std::vector<PageDigest> hashed;
    size_t near = 0, at = 0;
    for (const Wanted &want : wanted) {
        // As a rule it is where the one before has ended.
        if (at > 0 && level.extents[at - 1].end() > want.page)
            at = 0;
        if (at < level.extents.size() && level.extents[at].end() <= want.page)
            at = static_cast<size_t>(
                std::ranges::upper_bound(level.extents, want.page, {}, &Extent::end) -
                level.extents.begin());
        for (; at < level.extents.size(); at++) {
            const Extent &extent = level.extents[at];
            const uint64_t first = std::max(extent.page, want.page);
            const uint64_t end = std::min(extent.end(), want.page + want.count);
            if (first >= end)
                break;
            if (extent.kind == ExtentKind::base) {
                const uint64_t source = extent.source + (first - extent.page);
                left.push_back({source, end - first, first + want.moved - source});
            } else if (extent.kind == ExtentKind::data && level.has_digests) {
                const std::vector<PageDigest> &own = level.own;
                if (near == own.size() || own[near].page < first ||
                    (near > 0 && own[near - 1].page >= first))
                    near = static_cast<size_t>(first_from(own, first) - own.begin());
                for (; near < own.size() && own[near].page < end; near++)
                    pages.push_back({own[near].page + want.moved, own[near].digest});
            } else if (extent.kind == ExtentKind::data) {
                hashed.clear();
                Extent part = extent;
                part.page = first;
                part.count = end - first;
                if (Result<void> done = hash_pages(image, part, hashed); !done)
                    return done;
                for (const PageDigest &one : hashed)
                    pages.push_back({one.page + want.moved, one.digest});
            } // zeros are never asked for: they cost nothing in any image
            if (extent.end() > want.page + want.count)
                break; // the rest of it may be wanted next
        }
    }
    return {};
}

// Each image of a chain gives pages in order, so that few rows are to be merged.
void sort_rows(std::vector<PageDigest> &pages)
{
    std::vector<ptrdiff_t> ends;
    for (size_t i = 1; i <= pages.size(); i++) {
        if (i == pages.size() || by_page(pages[i], pages[i - 1]))
            ends.push_back(static_cast<ptrdiff_t>(i));
    }
    while (ends.size() > 1) {
        std::vector<ptrdiff_t> merged;
        ptrdiff_t begin = 0;
        for (size_t i = 0; i < ends.size(); i += 2) {
            const ptrdiff_t end = i + 1 < ends.size() ? ends[i + 1] : ends[i];
            std::inplace_merge(pages.begin() + begin, pages.begin() + ends[i], pages.begin() + end,
                               by_page);
            merged.push_back(end);
            begin = end;
        }
        ends = std::move(merged);
    }
}

} // namespace

// From the image down to the last of its bases, each asked only for what is left to it: what one
// has is looked at once, however many others have come since.
Result<PageTable> PageTable::of(Image &image)
{
    Result<std::vector<Image *>> chain = image.chain();
    if (!chain)
        return chain.error();
    uint64_t most = 0; // that can be there
    for (const Image *one : *chain)
        most += one->footer().blocks;
    std::vector<PageDigest> pages;
    std::vector<Wanted> wanted = {{0, kMaxPage, 0}};
    for (Image *at = &image;;) {
        Result<Level> level = level_of(*at);
        if (!level)
            return level.error();
        if (at == &image) {
            uint64_t all = 0;
            for (const Extent &extent : level->extents)
                all += extent.kind == ExtentKind::zero ? 0 : extent.count;
            pages.reserve(std::min(all, most));
        }
        std::vector<Wanted> left;
        if (Result<void> taken = take_level(*at, *level, wanted, pages, left); !taken)
            return taken.error();
        if (left.empty())
            break;
        const auto by_first = [](const Wanted &a, const Wanted &b) { return a.page < b.page; };
        if (!std::is_sorted(left.begin(), left.end(), by_first))
            std::sort(left.begin(), left.end(), by_first);
        wanted = std::move(left);
        Result<Image *> base = at->base();
        if (!base)
            return base.error();
        at = *base;
    }
    sort_rows(pages);
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
