// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/page_table.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>

#include "capture/memory/objects.hpp"
#include "image/little_endian.hpp"

namespace cryo::capture {

using namespace cryo::image;

namespace {

constexpr size_t page_size = image::kPageSize;
constexpr size_t piece_pages = 64;

// The digests in the record's object, except those of zero pages: they are never looked up, because
// zero pages cost nothing in any image. Their number is limited by what the image holds, not by
// what a number in it claims.
Result<std::vector<PageDigest>> stored_digests(Image &image, const PageDigests &about)
{
    constexpr size_t entry_size = 24;
    if (about.count > image.footer().blocks)
        return Error(EBADMSG, image.name() + ": has more digests than pages");
    const uint64_t bytes = about.count * entry_size;
    // The size of a piece is a multiple of both the page size and the entry size.
    std::vector<uint8_t> piece(entry_size / 8 * piece_pages * page_size);
    std::vector<PageDigest> out;
    const Digest zero = zero_digest();
    std::optional<uint64_t> last;
    for (uint64_t done = 0; done < bytes; done += piece.size()) {
        const uint64_t most = std::min<uint64_t>(piece.size(), bytes - done);
        const MutableBytes part(piece.data(), (most + page_size - 1) / page_size * page_size);
        if (Result<void> got = image.read_pages(about.object, done / page_size, part); !got)
            return got.error();
        for (const uint8_t *entry = piece.data(); entry < piece.data() + most;
             entry += entry_size) {
            const auto page = load_le<uint64_t>(entry);
            if (last && page <= *last)
                return Error(EBADMSG, image.name() + ": its digests are not in order");
            last = page;
            const Digest digest = Digest::from_bytes(std::span<const uint8_t, 16>(entry + 8, 16));
            if (digest != zero)
                out.push_back({page, digest});
        }
    }
    return out;
}

// For an image that was saved without digests: reads its own pages.
Result<void> hash_pages(Image &image, const Extent &extent, std::vector<PageDigest> &out)
{
    std::vector<uint8_t> bytes(piece_pages * page_size);
    for (uint64_t done = 0; done < extent.count;) {
        const uint64_t count = std::min<uint64_t>(piece_pages, extent.count - done);
        const MutableBytes piece(bytes.data(), count * page_size);
        if (Result<void> got = image.read_pages(extent.object, extent.page + done, piece); !got)
            return got;
        for (uint64_t i = 0; i < count; i++) {
            const Digest digest = digest_of_page(piece.subspan(i * page_size, page_size));
            if (digest != zero_digest())
                out.push_back({extent.page + done + i, digest});
        }
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

// The part of the address space that an image holds itself.
struct Level {
    bool has_digests = false;
    std::vector<PageDigest> own; // ascending; only if has_digests
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
    // Where segments end, extents may be out of order.
    const auto by_first = [](const Extent &a, const Extent &b) { return a.page < b.page; };
    if (!std::is_sorted(level.extents.begin(), level.extents.end(), by_first))
        std::sort(level.extents.begin(), level.extents.end(), by_first);
    return level;
}

} // namespace

// Adds consecutive pages whose digests are consecutive in memory as well.
void PageTable::add_row(uint64_t page, uint64_t count, const PageDigest *digests)
{
    if (!rows_.empty() && rows_.back().end() == page &&
        rows_.back().digests + rows_.back().count == digests)
        rows_.back().count += count;
    else
        rows_.push_back({page, count, digests});
}

// Adds a row for each sequence of consecutive pages among the entries.
void PageTable::add_rows(std::span<const PageDigest> entries, uint64_t moved)
{
    for (size_t at = 0; at < entries.size();) {
        size_t end = at + 1;
        // Usually all of them are consecutive.
        if (entries.back().page - entries[at].page == entries.size() - 1 - at)
            end = entries.size();
        while (end < entries.size() && entries[end].page == entries[end - 1].page + 1)
            end++;
        add_row(entries[at].page + moved, end - at, &entries[at]);
        at = end;
    }
}

namespace {

// The digests of an extent's pages.
std::span<const PageDigest> digests_of(const std::vector<PageDigest> &own, uint64_t first,
                                       uint64_t end, size_t &near)
{
    if (near == own.size() || own[near].page < first || (near > 0 && own[near - 1].page >= first))
        near = static_cast<size_t>(std::ranges::lower_bound(own, first, {}, &PageDigest::page) -
                                   own.begin());
    const size_t begin = near;
    // Usually every page has one.
    if (end - first <= own.size() - begin && own[begin].page == first &&
        own[begin + (end - first) - 1].page == end - 1)
        near += end - first;
    while (near < own.size() && own[near].page < end)
        near++;
    return {own.data() + begin, near - begin};
}

} // namespace

// Takes only what an extent confirms: a digest without a page, or a page of the base that this
// image no longer has, does not count. `left`: what the image leaves to its base.
Result<void> PageTable::take_level(Image &image, const std::vector<Wanted> &wanted,
                                   std::vector<Wanted> &left)
{
    Result<Level> level = level_of(image);
    if (!level)
        return level.error();
    size_t near = 0, at = 0;
    for (const Wanted &want : wanted) {
        // Usually the extent where the previous range has ended.
        if (at > 0 && level->extents[at - 1].end() > want.page)
            at = 0;
        if (at < level->extents.size() && level->extents[at].end() <= want.page)
            at = static_cast<size_t>(
                std::ranges::upper_bound(level->extents, want.page, {}, &Extent::end) -
                level->extents.begin());
        for (; at < level->extents.size(); at++) {
            const Extent &extent = level->extents[at];
            const uint64_t first = std::max(extent.page, want.page);
            const uint64_t end = std::min(extent.end(), want.page + want.count);
            if (first >= end)
                break;
            if (extent.kind == ExtentKind::base) {
                const uint64_t source = extent.source + (first - extent.page);
                left.push_back({source, end - first, first + want.moved - source});
            } else if (extent.kind == ExtentKind::data && level->has_digests) {
                add_rows(digests_of(level->own, first, end, near), want.moved);
            } else if (extent.kind == ExtentKind::data) {
                Extent part = extent;
                part.page = first;
                part.count = end - first;
                digests_.emplace_back();
                if (Result<void> done = hash_pages(image, part, digests_.back()); !done)
                    return done;
                add_rows(digests_.back(), want.moved);
            } // zeros are never looked up
            if (extent.end() > want.page + want.count)
                break; // the rest of it may be wanted next
        }
    }
    digests_.push_back(std::move(level->own));
    return {};
}

// Each image of a chain adds its pages in order, so only a few sorted lists must be merged.
void PageTable::sort_rows()
{
    std::vector<ptrdiff_t> ends;
    for (size_t i = 1; i <= rows_.size(); i++) {
        if (i == rows_.size() || rows_[i].page < rows_[i - 1].page)
            ends.push_back(static_cast<ptrdiff_t>(i));
    }
    const auto by_page = [](const Row &a, const Row &b) { return a.page < b.page; };
    while (ends.size() > 1) {
        std::vector<ptrdiff_t> merged;
        ptrdiff_t begin = 0;
        for (size_t i = 0; i < ends.size(); i += 2) {
            const ptrdiff_t end = i + 1 < ends.size() ? ends[i + 1] : ends[i];
            std::inplace_merge(rows_.begin() + begin, rows_.begin() + ends[i], rows_.begin() + end,
                               by_page);
            merged.push_back(end);
            begin = end;
        }
        ends = std::move(merged);
    }
}

// Goes from the image down to its last base and asks each only for the pages that no later image
// has: every page is handled once, no matter how long the chain is.
Result<PageTable> PageTable::of(Image &image)
{
    PageTable table;
    std::vector<Wanted> wanted = {{0, kMaxPage, 0}};
    for (Image *at = &image;;) {
        std::vector<Wanted> left;
        if (Result<void> taken = table.take_level(*at, wanted, left); !taken)
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
    table.sort_rows();
    for (size_t i = 1; i < table.rows_.size(); i++) {
        if (table.rows_[i].page < table.rows_[i - 1].end())
            return Error(EBADMSG, image.name() + ": has a page twice");
    }
    return table;
}

PageTable PageTable::of(std::vector<PageDigest> digests)
{
    std::ranges::sort(digests, {}, &PageDigest::page);
    PageTable table;
    table.digests_.push_back(std::move(digests));
    table.add_rows(table.digests_.back(), 0);
    return table;
}

const Digest *PageTable::find(uint64_t page, size_t &near) const
{
    for (size_t at = near; at < rows_.size() && at < near + 2; at++) {
        if (const Row &row = rows_[at]; page >= row.page && page < row.end()) {
            near = at;
            return &row.digests[page - row.page].digest;
        }
    }
    near =
        static_cast<size_t>(std::ranges::upper_bound(rows_, page, {}, &Row::end) - rows_.begin());
    return near < rows_.size() && rows_[near].page <= page
               ? &rows_[near].digests[page - rows_[near].page].digest
               : nullptr;
}

const Digest *PageTable::find(uint64_t page) const
{
    size_t near = 0;
    return find(page, near);
}

uint64_t PageTable::size() const
{
    uint64_t pages = 0;
    for (const Row &row : rows_)
        pages += row.count;
    return pages;
}

std::vector<Run> PageTable::common_with(const PageTable &other) const
{
    std::vector<Run> runs;
    const auto add = [&](uint64_t page, uint64_t count) {
        const uint64_t start = page * page_size, end = start + count * page_size;
        if (!runs.empty() && runs.back().end == start)
            runs.back().end = end;
        else
            runs.push_back({start, end});
    };
    size_t near = 0;
    for (const Row &row : rows_) {
        if (&other == this) {
            add(row.page, row.count);
            continue;
        }
        for (uint64_t i = 0; i < row.count; i++) {
            const Digest *there = other.find(row.page + i, near);
            if (there != nullptr && *there == row.digests[i].digest)
                add(row.page + i, 1);
        }
    }
    return runs;
}

} // namespace cryo::capture
