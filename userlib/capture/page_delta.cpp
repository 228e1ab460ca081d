// SPDX-License-Identifier: Apache-2.0
#include "capture/page_delta.hpp"

#include <algorithm>

#include "capture/objects.hpp"
#include "image/little_endian.hpp"

namespace cryo::capture {

using namespace cryo::image;

PageDelta::Kind PageDelta::look(uint64_t page, Bytes bytes)
{
    const Digest digest = digest_of_page(bytes);
    if (digest == zero_digest())
        return Kind::zero;
    const auto is_in = [&](const PageTable &table) {
        const Digest *there = table.find(page);
        return there != nullptr && *there == digest;
    };
    const bool same = base_ != nullptr && is_in(*base_->pages);
    const bool same_as_previous =
        base_ != nullptr &&
        (base_->previous_pages == base_->pages ? same : is_in(*base_->previous_pages));
    pages_++;
    changed_to_base_ += same ? 0 : 1;
    changed_to_previous_ += same_as_previous ? 0 : 1;
    if (same)
        return Kind::base;
    own_.push_back({page, digest});
    return Kind::own;
}

Result<uint64_t> PageDelta::write(ImageWriter &writer, uint64_t first_page, MutableBytes pages)
{
    const uint64_t count = pages.size() / kPageSize;
    uint64_t written = 0;
    const auto kind_of = [&](uint64_t i) {
        return look(first_page + i, pages.subspan(i * kPageSize, kPageSize));
    };
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
    return added ? writer.add(record) : added;
}

} // namespace cryo::capture
