// SPDX-License-Identifier: Apache-2.0
#include "image/stream_reader.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

namespace cryo::image {

Result<bool> StreamReader::read(MutableBytes to)
{
    size_t done = 0;
    while (done < to.size()) {
        ssize_t n = ::read(fd_, to.data() + done, to.size() - done);
        if (n > 0) {
            done += size_t(n);
        } else if (n == 0) {
            if (done == 0)
                return false;
            return damaged(fmt::format("truncated: the stream ended at byte {} of the image",
                                       position_ + done));
        } else if (errno == EAGAIN) {
            pollfd p{fd_, POLLIN, 0};
            poll(&p, 1, -1);
        } else if (errno != EINTR) {
            return Error::from_errno("reading", errno);
        }
    }
    position_ += done;
    return true;
}

Result<void> StreamReader::need(MutableBytes to)
{
    if (to.empty())
        return {};
    auto got = read(to);
    if (!got)
        return got.error();
    if (!*got)
        return damaged(
            fmt::format("truncated: the stream ended at byte {} of the image", position_));
    return {};
}

Result<void> StreamReader::skip_zeros(uint64_t to_position)
{
    uint8_t gap[kPageSize];
    if (to_position - position_ >= sizeof gap)
        return damaged("a gap between packages is too large");
    MutableBytes bytes(gap, size_t(to_position - position_));
    if (auto ok = need(bytes); !ok)
        return ok;
    if (std::ranges::any_of(bytes, [](uint8_t b) { return b != 0; }))
        return damaged("bytes between two packages should be zero");
    return {};
}

Result<StreamItem> StreamReader::next()
{
    if (failed_)
        return *failed_;
    auto item = [&]() -> Result<StreamItem> {
        if (state_ == State::between)
            return begin_image();
        if (state_ == State::segment)
            if (auto found = next_in_segment())
                return std::move(*found);
        return next_record();
    }();
    if (!item) {
        failed_ = item.error().within(name_);
        return *failed_;
    }
    return item;
}

Result<StreamItem> StreamReader::begin_image()
{
    Header::Page page;
    position_ = 0;
    auto got = read(page);
    if (!got)
        return got.error();
    if (!*got) {
        if (!seen_image_)
            return damaged("not a Cryo image: empty");
        if (header_.hints & kHintMember)
            return damaged("truncated: the archive ends before the list of its members");
        return StreamItem{.kind = StreamItem::Kind::end_of_stream};
    }
    auto header = Header::decode(page);
    if (!header)
        return header.error();
    header_ = std::move(*header);
    seen_image_ = true;
    covered_.reset();
    covered_.add(page);
    records_ = stored_ = next_block_ = next_package_ = 0;
    directory_ = {};
    state_ = State::records;
    return StreamItem{.kind = StreamItem::Kind::image};
}

Result<StreamItem> StreamReader::next_record()
{
    for (;;) {
        uint64_t at = position_;
        RecordPrefix::Encoded bytes;
        if (auto ok = need(bytes); !ok)
            return ok.error();
        RecordPrefix prefix = RecordPrefix::decode(bytes);
        if (prefix.type == RecordType::segment) {
            if (auto ok = begin_segment(prefix); !ok)
                return ok.error();
            if (auto item = next_in_segment())
                return std::move(*item);
            continue;
        }
        if (prefix.length > kMaxRecord)
            return damaged(fmt::format("{} at {} claims {} bytes; the limit is {}",
                                       describe(prefix.type), at, prefix.length, kMaxRecord));
        // Read what is there before making room for the claimed size: at most double it each time.
        payload_.clear();
        while (payload_.size() < prefix.length) {
            size_t have = payload_.size();
            payload_.resize(std::min<size_t>(prefix.length, std::max<size_t>(2 * have, 4096)));
            if (auto ok = need(MutableBytes(payload_).subspan(have)); !ok)
                return ok.error();
        }
        if (!prefix.matches(payload_))
            return damaged(
                fmt::format("{} at {} is damaged (checksum)", describe(prefix.type), at));
        if (auto ok = prefix.check(); !ok)
            return ok.error();
        if (prefix.type == RecordType::footer) {
            Footer::Page page;
            if (prefix.length != kFooterSize - kPrefixSize || at % kPageSize)
                return damaged("the footer is not where it should be");
            std::ranges::copy(bytes, page.begin());
            std::ranges::copy(payload_, page.begin() + kPrefixSize);
            return end_image(page);
        }
        covered_.add(bytes);
        covered_.add(payload_);
        if (prefix.type == RecordType::directory)
            directory_ = {at, position_ - at};
        if (prefix.is_structure())
            continue;
        records_++;
        return StreamItem{.kind = StreamItem::Kind::record,
                          .record = {.type = prefix.type,
                                     .version = prefix.version,
                                     .flags = prefix.flags,
                                     .offset = at,
                                     .payload = payload_}};
    }
}

Result<void> StreamReader::begin_segment(const RecordPrefix &prefix)
{
    uint64_t payload = position_;
    std::array<uint8_t, SegmentHead::kFixed> fixed;
    if (auto ok = need(fixed); !ok)
        return ok;
    auto size = SegmentHead::size(fixed, prefix.version, prefix.length);
    if (!size)
        return size.error();
    payload_.assign(fixed.begin(), fixed.end());
    payload_.resize(*size);
    if (auto ok = need(MutableBytes(payload_).subspan(fixed.size())); !ok)
        return ok;
    if (!prefix.matches(payload_))
        return damaged("a segment's head is damaged (checksum)");
    if (auto ok = prefix.check(); !ok)
        return ok;
    auto head = SegmentHead::parse(payload_, prefix.version, payload, prefix.length,
                                   header_.package_blocks);
    if (!head)
        return head.error();
    if (head->first_block() != next_block_ || head->first_package() != next_package_ ||
        (head->block_count() && next_block_ % header_.package_blocks))
        return damaged("a segment's blocks do not follow those of the one before");
    next_block_ += head->block_count();
    next_package_ += head->packages().size();
    if (next_block_ > kMaxPage)
        return damaged("an image has more blocks than there can be");
    head_ = std::move(*head);
    extent_ = package_ = 0;
    extent_done_ = 0;
    block_ = head_->first_block();
    unpacked_size_ = 0;
    state_ = State::segment;
    return {};
}

Result<void> StreamReader::load_package()
{
    const Package &p = head_->packages()[package_];
    if (auto ok = skip_zeros(p.offset); !ok)
        return ok;
    uint64_t left = head_->first_block() + head_->block_count() - block_;
    unpacked_size_ = size_t(std::min<uint64_t>(left, header_.package_blocks)) * kPageSize;
    if (p.stored > header_.package_bytes())
        return damaged("a package is larger than a package");
    unpacked_.resize(header_.package_bytes());
    MutableBytes pages = MutableBytes(unpacked_).first(unpacked_size_);
    bool raw = p.codec == Codec::raw;
    if (raw && p.stored != unpacked_size_)
        return damaged("a package has an impossible size");
    if (!raw)
        stored_bytes_.resize(header_.package_bytes());
    MutableBytes bytes = raw ? pages : MutableBytes(stored_bytes_).first(p.stored);
    if (auto ok = need(bytes); !ok)
        return ok;
    if (checksum128(bytes) != p.checksum)
        return damaged(fmt::format("a package at {} is damaged (checksum)", p.offset));
    if (!raw && !unpacker_.unpack(p.codec, bytes, pages))
        return damaged(fmt::format("a package at {} cannot be unpacked", p.offset));
    stored_ += p.stored;
    package_++;
    return {};
}

// The next extent, or the part of it that lies in one package. None: the segment has ended.
std::optional<Result<StreamItem>> StreamReader::next_in_segment()
{
    if (extent_ == head_->extents().size()) {
        state_ = State::records;
        return std::nullopt;
    }
    const Extent &e = head_->extents()[extent_];
    if (e.kind != ExtentKind::data) {
        extent_++;
        if (e.kind == ExtentKind::base && !header_.is_delta())
            return damaged("it refers to a base image but names none");
        return StreamItem{.kind = StreamItem::Kind::extent, .extent = e};
    }
    uint64_t block = e.source + extent_done_;
    if (block == block_ + unpacked_size_ / kPageSize) {
        block_ = block;
        if (auto ok = load_package(); !ok)
            return ok.error();
    }
    uint64_t skip = block - block_;
    uint64_t count = std::min(e.count - extent_done_, unpacked_size_ / kPageSize - skip);
    StreamItem item{.kind = StreamItem::Kind::pages,
                    .extent = {e.object, e.kind, e.page + extent_done_, count, block},
                    .pages = Bytes(unpacked_).subspan(skip * kPageSize, count * kPageSize)};
    extent_done_ += count;
    if (extent_done_ == e.count) {
        extent_++;
        extent_done_ = 0;
    }
    return item;
}

Result<StreamItem> StreamReader::end_image(Bytes page)
{
    auto footer = Footer::decode(page);
    if (!footer)
        return footer.error();
    if (footer->id != header_.id)
        return damaged("header and footer are of different images");
    if (Footer::expected_checksum(covered_, page) != footer->checksum)
        return damaged("the metadata is damaged (checksum)");
    if (footer->length != position_ || footer->records != records_ ||
        footer->blocks != next_block_ || footer->packages != next_package_ ||
        footer->stored != stored_ || footer->directory != directory_.offset ||
        footer->directory_length != directory_.length)
        return damaged("the footer's totals are not those of the image");
    footer_ = *footer;
    state_ = State::between;
    return StreamItem{.kind = StreamItem::Kind::committed};
}

} // namespace cryo::image
