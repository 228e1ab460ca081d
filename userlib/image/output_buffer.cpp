// SPDX-License-Identifier: Apache-2.0
#include "image/output_buffer.hpp"

#include <algorithm>
#include <cassert>
#include <cstring>

namespace cryo::image {

Result<void> OutputBuffer::allocate()
{
    auto memory = SegmentMemory::create();
    if (!memory)
        return memory.error();
    memory_ = std::move(*memory);
    return {};
}

Result<void> OutputBuffer::append_record(RecordPrefix prefix, Bytes payload)
{
    prefix.length = payload.size();
    if (auto ok = append_covered(prefix.encode(payload)); !ok)
        return ok;
    return append_covered(payload);
}

Result<void> OutputBuffer::append_covered(Bytes bytes)
{
    covered_.add(bytes);
    return append(bytes);
}

Result<void> OutputBuffer::append(Bytes bytes)
{
    while (!bytes.empty()) {
        if (size_ >= flush_at)
            if (auto ok = flush(); !ok)
                return ok;
        size_t n = std::min(bytes.size(), 2 * flush_at - size_);
        memcpy(memory_->data().data() + size_, bytes.data(), n);
        size_ += n;
        offset_ += n;
        bytes = bytes.subspan(n);
    }
    return {};
}

Result<void> OutputBuffer::append_pages(MutableBytes aligned)
{
    assert(offset_ % kPageSize == 0);
    size_t whole = aligned.size() / kPageSize * kPageSize;
    if (whole) {
        if (auto ok = write(aligned.first(whole)); !ok)
            return ok;
        offset_ += whole;
    }
    return append(aligned.subspan(whole));
}

// Writes the whole pages that are pending, then `pages`: with pages, nothing may stay pending.
Result<void> OutputBuffer::write(MutableBytes pages)
{
    uint8_t *pending = memory_->data().data();
    size_t whole = size_ / kPageSize * kPageSize;
    size_t rest = size_ - whole;
    assert(pages.empty() || rest == 0);
    iovec pieces[2];
    size_t n = 0;
    if (whole)
        pieces[n++] = {pending, whole};
    if (!pages.empty())
        pieces[n++] = {pages.data(), pages.size()};
    if (n)
        if (auto ok = sink_.write(std::span(pieces, n)); !ok)
            return ok;
    memmove(pending, pending + whole, rest);
    size_ = rest;
    return {};
}

Result<void> OutputBuffer::write_all()
{
    iovec rest = {memory_->data().data(), size_};
    if (auto ok = sink_.write({&rest, 1}); !ok)
        return ok;
    size_ = 0;
    return {};
}

Result<void> OutputBuffer::resume(const PlaceableFile &file)
{
    size_ = offset_ % kPageSize;
    const uint64_t whole = offset_ - size_;
    if (auto ok = file.read_at(whole, memory_->data().first(size_)); !ok)
        return ok;
    return file.go_to(whole);
}

} // namespace cryo::image
