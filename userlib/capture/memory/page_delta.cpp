// SPDX-License-Identifier: Apache-2.0
#include "capture/memory/page_delta.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

#include "capture/memory/objects.hpp"
#include "image/little_endian.hpp"

namespace cryo::capture {

using namespace cryo::image;

PageDelta::Kind PageDelta::look(uint64_t page, const Digest &digest)
{
    if (digest == zero_digest())
        return Kind::zero;
    const auto is_in = [&](const PageTable &table, size_t &near) {
        const Digest *there = table.find(page, near);
        return there != nullptr && *there == digest;
    };
    const bool same = base_ != nullptr && is_in(*base_->pages, near_base_);
    const bool same_as_previous =
        base_ != nullptr &&
        (base_->previous_pages == base_->pages ? same
                                               : is_in(*base_->previous_pages, near_previous_));
    pages_++;
    changed_to_base_ += same ? 0 : 1;
    changed_to_previous_ += same_as_previous ? 0 : 1;
    if (digests_ == Digests::kept || (digests_ == Digests::stored && !same))
        own_.push_back({page, digest});
    return same ? Kind::base : Kind::own;
}

// Works on runs, never page by page, because the unchanged pages are so many.
void PageDelta::use(Unchanged unchanged)
{
    unchanged_ = std::move(unchanged);
    known_.clear();
    run_ = 0;
    if (base_ != nullptr && unchanged_.since)
        known_ = common_part(unchanged_.runs, unchanged_.since == base_->pages
                                                  ? base_->left_by_base
                                                  : base_->left_by_previous);
}

// The first run of known pages that ends after the address.
size_t PageDelta::known_from(uint64_t address)
{
    const auto ends_behind = [&](size_t run) {
        return run == known_.size() || known_[run].end > address;
    };
    const auto is_it = [&](size_t run) {
        return ends_behind(run) && (run == 0 || known_[run - 1].end <= address);
    };
    if (!is_it(run_) && run_ < known_.size())
        run_++; // the usual case
    if (!is_it(run_))
        run_ = static_cast<size_t>(std::ranges::upper_bound(known_, address, {}, &Run::end) -
                                   known_.begin());
    return run_;
}

uint64_t PageDelta::known(uint64_t page, uint64_t most)
{
    const uint64_t address = page * kPageSize;
    const size_t run = known_from(address);
    if (run == known_.size() || known_[run].start > address)
        return 0;
    return std::min(most, (known_[run].end - address) / kPageSize);
}

uint64_t PageDelta::unknown(uint64_t page, uint64_t most)
{
    const uint64_t address = page * kPageSize;
    const size_t run = known_from(address);
    if (run == known_.size())
        return most;
    return std::min(most, (std::max(known_[run].start, address) - address) / kPageSize);
}

Result<void> PageDelta::leave(ImageWriter &writer, uint64_t first_page, uint64_t count)
{
    if (known(first_page, count) != count)
        return Error(EINVAL, "a page that should be in the base image is not in it");
    left_ += count;
    pages_ += count;
    // Pages equal to the base's may differ from those of the previous image.
    const Run run = {first_page * kPageSize, (first_page + count) * kPageSize};
    if (unchanged_.since == base_->pages && base_->previous_pages != base_->pages)
        changed_to_previous_ += count - size_of(part_of(base_->left_by_previous, run)) / kPageSize;
    return writer.add_base(memory_object, first_page, count, first_page);
}

Result<void> PageDelta::audit(uint64_t first_page, Bytes pages)
{
    for (uint64_t i = 0; i < pages.size() / kPageSize; i++) {
        const Digest digest = digest_of_page(pages.subspan(i * kPageSize, kPageSize));
        const Digest *before = unchanged_.since->find(first_page + i, near_since_);
        if (before == nullptr || digest != *before)
            return Error(
                EILSEQ,
                fmt::format(
                    "page {:x}: {} reports it as unchanged, but it differs from the earlier image",
                    (first_page + i) * kPageSize, unchanged_.tracker));
        audited_++;
    }
    return {};
}

Result<uint64_t> PageDelta::write(ImageWriter &writer, uint64_t first_page, Bytes pages,
                                  std::span<const Digest> digests)
{
    const uint64_t count = pages.size() / kPageSize;
    uint64_t written = 0;
    const auto kind_of = [&](uint64_t i) {
        return look(first_page + i, i < digests.size()
                                        ? digests[i]
                                        : digest_of_page(pages.subspan(i * kPageSize, kPageSize)));
    };
    read_ += count;
    Kind kind = count > 0 ? kind_of(0) : Kind::own;
    for (uint64_t at = 0; at < count;) {
        uint64_t end = at + 1;
        Kind next = kind;
        while (end < count && (next = kind_of(end)) == kind)
            end++;
        Result<void> added;
        switch (kind) {
        case Kind::own:
            added = writer.add_pages(memory_object, first_page + at,
                                     pages.subspan(at * kPageSize, (end - at) * kPageSize));
            written += end - at;
            break;
        case Kind::zero:
            added = writer.add_zero(memory_object, first_page + at, end - at);
            break;
        case Kind::base:
            added = writer.add_base(memory_object, first_page + at, end - at, first_page + at);
            break;
        }
        if (!added)
            return added.error();
        at = end;
        kind = next;
    }
    return written;
}

Result<void> PageDelta::finish(ImageWriter &writer, uint32_t object)
{
    constexpr size_t entry_size = 24;
    std::sort(own_.begin(), own_.end(),
              [](const PageDigest &a, const PageDigest &b) { return a.page < b.page; });
    std::vector<uint8_t> stored((own_.size() * entry_size + kPageSize - 1) / kPageSize * kPageSize);
    for (size_t i = 0; i < own_.size(); i++) {
        uint8_t *entry = stored.data() + i * entry_size;
        store_le<uint64_t>(entry, own_[i].page);
        const auto bytes = own_[i].digest.bytes();
        std::copy(bytes.begin(), bytes.end(), entry + sizeof(uint64_t));
    }
    Object about;
    about.id = object;
    about.kind = ObjectKind::signature;
    about.size = own_.size() * entry_size;
    PageDigests record;
    record.object = object;
    record.of = memory_object;
    record.count = own_.size();
    record.pages = pages_;
    if (base_ != nullptr) {
        record.changed_to_base = changed_to_base_;
        record.changed_to_previous = changed_to_previous_;
        record.previous = base_->previous.bytes();
    }
    Result<void> added = writer.add(about);
    if (added && !stored.empty())
        added = writer.add_pages(object, 0, stored);
    PageTracker tracker;
    tracker.tracker = unchanged_.tracker;
    tracker.token = unchanged_.token;
    tracker.mark = unchanged_.mark;
    tracker.clean = left_;
    tracker.read = read_;
    tracker.audited = audited_;
    std::vector<uint64_t> unsure;
    for (const Run &run : unchanged_.unsure)
        unsure.insert(unsure.end(), {run.start, run.end});
    tracker.unsure = List<uint64_t>::of(unsure);
    if (added)
        added = writer.add(record);
    return added ? writer.add(tracker) : added;
}

} // namespace cryo::capture
