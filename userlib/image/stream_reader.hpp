// SPDX-License-Identifier: Apache-2.0
//
// StreamReader reads images from a pipe or socket as they arrive, without an index and without
// seeking: records and pages one after the other, each verified by its own checksum.
//
//     StreamReader reader(fd, "standard input");
//     for (;;) {
//         Result<StreamItem> item = reader.next();
//         if (!item) return item.error();
//         switch (item->kind) { case StreamItem::Kind::image: ... }
//         if (item->kind == StreamItem::Kind::end_of_stream) break;
//     }
//
// Only the item `committed` says that an image was complete: earlier items must not be trusted
// until then, and a stream that ends earlier is an error. Buffers: about 1 MiB for any stream.
#pragma once

#include "image/codec.hpp"
#include "image/header.hpp"
#include "image/reader.hpp"
#include "image/tables.hpp"

namespace cryo::image {

struct StreamItem {
    enum class Kind {
        image,         // a header was read: `header`
        record,        // `record`
        pages,         // `extent` of kind data; their contents in `pages`
        extent,        // `extent` of kind zero or base
        committed,     // the footer was read and everything agrees: `footer`
        end_of_stream, // after at least one image
    };
    Kind kind{};
    RecordView record = {};
    Extent extent = {};
    Bytes pages = {}; // valid until the next call
};

class StreamReader
{
  public:
    StreamReader(int fd, std::string name) : fd_(fd), name_(std::move(name)) {}

    Result<StreamItem> next();

    const Header &header() const { return header_; } // of the current image
    const Footer &footer() const { return footer_; } // after `committed`

  private:
    enum class State { between, records, segment };

    Result<StreamItem> begin_image();
    Result<StreamItem> next_record();
    Result<void> begin_segment(const RecordPrefix &prefix);
    std::optional<Result<StreamItem>> next_in_segment();
    Result<void> load_package();
    Result<StreamItem> end_image(Bytes page);
    Result<bool> read(MutableBytes to); // false: the stream ended before the first byte
    Result<void> need(MutableBytes to);
    Result<void> skip_zeros(uint64_t to_position);

    int fd_;
    std::string name_;
    State state_ = State::between;
    bool seen_image_ = false;
    std::optional<Error> failed_;

    Header header_;
    Footer footer_;
    Hasher covered_;
    uint64_t position_ = 0; // in the image
    uint64_t records_ = 0;
    uint64_t stored_ = 0;
    uint64_t next_block_ = 0;
    uint64_t next_package_ = 0;
    ByteRange directory_; // the last one seen

    std::optional<SegmentHead> head_;
    size_t extent_ = 0;        // of head_, to be reported next
    uint64_t extent_done_ = 0; // pages of it
    size_t package_ = 0;       // of head_, to be read next
    uint64_t block_ = 0;       // first one in unpacked_
    size_t unpacked_size_ = 0;

    Unpacker unpacker_;
    std::vector<uint8_t> payload_;
    std::vector<uint8_t> stored_bytes_;
    std::vector<uint8_t> unpacked_;
};

} // namespace cryo::image
