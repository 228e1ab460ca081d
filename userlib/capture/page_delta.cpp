// SPDX-License-Identifier: Apache-2.0
#include "capture/page_delta.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

#include "capture/objects.hpp"
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
    if (same)
        return Kind::base;
    own_.push_back({page, digest});
    return Kind::own;
}

// The digest of a page that has not changed since there was one.
const Digest *PageDelta::unchanged(uint64_t page)
{
    const uint64_t address = page * kPageSize;
    const std::vector<Run> &runs = unchanged_.runs;
    if (run_ >= runs.size() || address < runs[run_].start || address >= runs[run_].end) {
        const auto behind =
            std::upper_bound(runs.begin(), runs.end(), address,
                             [](uint64_t at, const Run &run) { return at < run.end; });
        run_ = static_cast<size_t>(behind - runs.begin());
        if (run_ == runs.size() || address < runs[run_].start)
            return nullptr;
    }
    return unchanged_.since->find(page, near_since_);
}

uint64_t PageDelta::known(uint64_t page, uint64_t most)
{
    if (base_ == nullptr || !unchanged_.since)
        return 0;
    uint64_t count = 0;
    for (; count < most; count++) {
        const Digest *digest = unchanged(page + count);
        if (digest == nullptr || *digest == zero_digest())
            break;
        if (unchanged_.since == base_->pages)
            continue;
        const Digest *there = base_->pages->find(page + count, near_base_);
        if (there == nullptr || *there != *digest)
            break;
    }
    return count;
}

uint64_t PageDelta::unknown(uint64_t page, uint64_t most)
{
    if (base_ == nullptr || !unchanged_.since)
        return most;
    uint64_t count = 0;
    while (count < most && known(page + count, 1) == 0)
        count++;
    return count;
}

Result<void> PageDelta::leave(ImageWriter &writer, uint64_t first_page, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        if (look(first_page + i, *unchanged(first_page + i)) != Kind::base)
            return Error(EINVAL, "a page that was to be left to the base is not in it");
    }
    left_ += count;
    return writer.add_base(memory_object, first_page, count, first_page);
}

Result<void> PageDelta::audit(uint64_t first_page, Bytes pages)
{
    for (uint64_t i = 0; i < pages.size() / kPageSize; i++) {
        const Digest digest = digest_of_page(pages.subspan(i * kPageSize, kPageSize));
        if (digest != *unchanged(first_page + i))
            return Error(EILSEQ, fmt::format("page {:x}: {} takes it for unchanged, but it is not "
                                             "as in the image before",
                                             (first_page + i) * kPageSize, unchanged_.tracker));
        audited_++;
    }
    return {};
}

Result<uint64_t> PageDelta::write(ImageWriter &writer, uint64_t first_page, MutableBytes pages)
{
    const uint64_t count = pages.size() / kPageSize;
    uint64_t written = 0;
    const auto kind_of = [&](uint64_t i) {
        return look(first_page + i, digest_of_page(pages.subspan(i * kPageSize, kPageSize)));
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
