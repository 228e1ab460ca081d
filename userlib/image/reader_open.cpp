// SPDX-License-Identifier: Apache-2.0
//
// Opening an image: nothing of it is used before header, footer, index and metadata have been
// checked.
#include "image/reader.hpp"

#include <algorithm>
#include <cassert>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>

#include "image/records.hpp"

namespace cryo::image {

namespace {

// Limits of loaded index parts: bytes read or unpacked; views of mapped parts cost next to nothing.
// An index is walked several times: one of usual size, 260,000 runs of pages, stays loaded.
constexpr uint64_t kLoadedBytes = 16 << 20;
constexpr size_t kMappedParts = 1024;

} // namespace

Image::Image(Source source, std::string name, OpenOptions options)
    : source_(std::move(source)), name_(std::move(name)), options_(std::move(options))
{}

Result<std::unique_ptr<Image>> Image::open(const std::string &path, OpenOptions options)
{
    auto source = Source::open(path, options.access);
    if (!source)
        return source.error();
    return open(std::move(*source), path, std::move(options));
}

Result<std::unique_ptr<Image>> Image::open(Fd fd, std::string name, OpenOptions options)
{
    auto source = Source::open(std::move(fd), name, options.access);
    if (!source)
        return source.error();
    return open(std::move(*source), std::move(name), std::move(options));
}

Result<std::unique_ptr<Image>> Image::open(Source source, std::string name, OpenOptions options)
{
    if (options.trust)
        if (auto ok = options.trust->check(source.fd(), name); !ok)
            return ok.error();
    std::unique_ptr<Image> image(new Image(std::move(source), std::move(name), std::move(options)));
    if (auto ok = image->open_footer(); !ok)
        return image->failure(ok.error());
    if (auto ok = image->open_index(); !ok)
        return image->failure(ok.error());
    return image;
}

Result<Bytes> Image::view(uint64_t offset, uint64_t length)
{
    return source_.view(start_ + offset, length);
}

// Checks header and footer, each by its own checksum, and that they belong together.
Result<void> Image::open_footer()
{
    uint64_t end = source_.size();
    if (options_.member) {
        if (options_.member->offset > end ||
            options_.member->length > end - options_.member->offset)
            return damaged("truncated: a member of the archive lies beyond its end");
        start_ = options_.member->offset;
        end = options_.member->end();
    }
    if (end - start_ < kHeaderSize + kFooterSize) {
        // Say "no image at all" rather than "truncated" of a small file that is something else.
        if (end - start_ >= sizeof kHeaderMagic) {
            auto magic = source_.view(start_, sizeof kHeaderMagic);
            if (magic && std::ranges::equal(*magic, kHeaderMagic))
                return damaged("not committed: the footer is missing (truncated?)");
        }
        return damaged("not a Cryo image: too short");
    }
    auto page = source_.view(end - kFooterSize, kFooterSize);
    if (!page)
        return page.error();
    auto footer = Footer::decode(*page);
    if (!footer) {
        // A file that never was an image deserves the clearer words.
        auto front = source_.view(start_, kHeaderSize);
        auto header = front ? Header::decode(*front) : front.error();
        return header ? footer.error() : header.error();
    }
    footer_ = *footer;
    if (footer_.length > end - start_ || (options_.member && footer_.length != end - start_))
        return damaged("truncated: the footer tells of more bytes than there are");
    start_ = end - footer_.length;
    page = view(0, kHeaderSize);
    if (!page)
        return page.error();
    auto header = Header::decode(*page);
    if (!header)
        return header.error();
    header_ = *header;
    if (header_.id != footer_.id)
        return damaged("header and footer are of different images");
    if (!options_.member && start_ != 0 && header_.role != Role::tree)
        return damaged("the file begins with something that is not part of the image");
    if (!options_.member && (header_.hints & kHintMember))
        return damaged("truncated: the archive ends before the list of its members");
    return {};
}

// Checks the index and all metadata against the footer's checksum.
Result<void> Image::open_index()
{
    auto bytes = view(footer_.directory, footer_.directory_length);
    if (!bytes)
        return bytes.error();
    RecordPrefix prefix = RecordPrefix::decode(bytes->first<kPrefixSize>());
    Bytes payload = bytes->subspan(kPrefixSize);
    if (prefix.type != RecordType::directory || prefix.length != payload.size() ||
        !prefix.matches(payload))
        return damaged("the index's directory is damaged");
    auto parts = decode_directory(payload);
    if (!parts)
        return parts.error();
    parts_ = std::move(*parts);

    uint64_t position = kHeaderSize;
    uint64_t packages = 0;
    for (size_t i = 0; i < parts_.size(); i++) {
        const PartEntry &e = parts_[i];
        if (e.record.offset < position || e.record.length < kPrefixSize ||
            e.record.length > kPrefixSize + kMaxRecord ||
            e.record.offset > footer_.directory - e.record.length || e.first_package != packages ||
            e.package_count > kMaxRecord)
            return damaged("the index's directory is impossible");
        auto loaded = part(i);
        if (!loaded)
            return loaded.error();
        position = e.record.end();
        packages += e.package_count;
    }
    if (packages != footer_.packages || footer_.blocks > kMaxPage ||
        packages != (footer_.blocks + header_.package_blocks - 1) / header_.package_blocks)
        return damaged("the index does not have as many packages as the footer says");

    Hasher covered;
    uint64_t records = 0;
    auto first = view(0, kHeaderSize);
    if (!first)
        return first.error();
    covered.add(*first);
    auto ok = walk(&covered, [&](const RecordView &) -> Result<void> {
        records++;
        return {};
    });
    if (!ok)
        return ok;
    auto last = view(footer_.length - kFooterSize, kFooterSize);
    if (!last)
        return last.error();
    if (Footer::expected_checksum(covered, *last) != footer_.checksum)
        return damaged("the metadata is damaged (checksum)");
    if (records != footer_.records)
        return damaged("the image has another number of records than its footer says");
    return {};
}

Result<const IndexPart *> Image::part(size_t number)
{
    for (size_t i = 0; i < loaded_.size(); i++) {
        if (loaded_[i]->number == number) {
            std::rotate(loaded_.begin() + long(i), loaded_.begin() + long(i) + 1, loaded_.end());
            return &loaded_.back()->view;
        }
    }
    const ByteRange &record = parts_[number].record;
    auto out = std::make_unique<LoadedPart>();
    out->number = number;
    MutableBytes buffer;
    if (!source_.mapped()) {
        out->bytes = std::make_unique_for_overwrite<uint8_t[]>(record.length);
        buffer = {out->bytes.get(), record.length};
    }
    auto bytes = source_.fetch(start_ + record.offset, record.length, buffer);
    if (!bytes)
        return bytes.error();
    RecordPrefix prefix = RecordPrefix::decode(bytes->first<kPrefixSize>());
    Bytes payload = bytes->subspan(kPrefixSize);
    if (prefix.type != RecordType::index_part || prefix.length != payload.size() ||
        !prefix.matches(payload))
        return damaged(fmt::format("part {} of the index is damaged (checksum)", number));
    if (auto ok = prefix.check(); !ok)
        return ok.error();
    auto view = IndexPart::parse(payload, prefix.version, out->unpacked);
    if (!view)
        return view.error();
    if (PartEntry::describe(record, payload, *view) != parts_[number])
        return damaged(fmt::format("part {} of the index is not what the directory says", number));
    out->view = *view;
    out->record = *bytes;
    uint64_t in_memory = out->in_memory();
    for (const auto &other : loaded_)
        in_memory += other->in_memory();
    while (!loaded_.empty() && (loaded_.size() >= kMappedParts || in_memory > kLoadedBytes)) {
        in_memory -= loaded_.front()->in_memory();
        loaded_.erase(loaded_.begin());
    }
    loaded_.push_back(std::move(out));
    return &loaded_.back()->view;
}

Result<void> Image::each_segment(const std::function<Result<void>(const IndexPart &, size_t)> &f)
{
    for (size_t i = 0; i < parts_.size(); i++) {
        auto loaded = part(i);
        if (!loaded)
            return loaded.error();
        for (size_t j = 0; j < (*loaded)->segment_count(); j++) {
            // The callback may have evicted the part.
            loaded = part(i);
            if (!loaded)
                return loaded.error();
            if (auto ok = f(**loaded, j); !ok)
                return ok;
        }
    }
    return {};
}

// Walks everything outside segments, from header to footer. Typed records go to f, and all bytes
// to `covered` where it is given.
Result<void> Image::walk(Hasher *covered, const std::function<Result<void>(const RecordView &)> &f)
{
    uint64_t position = kHeaderSize;
    size_t next_part = 0;
    // Index parts are large and already loaded, so they are not read once more.
    auto index_part = [&](uint64_t end) -> Result<void> {
        if (parts_[next_part].record.end() > end)
            return damaged(fmt::format("part {} of the index reaches into a segment", next_part));
        auto loaded = part(next_part);
        if (!loaded)
            return loaded.error();
        if (covered)
            covered->add(loaded_.back()->record);
        position = parts_[next_part++].record.end();
        return {};
    };
    auto metadata = [&](uint64_t end) -> Result<void> {
        while (position < end) {
            if (next_part < parts_.size() && parts_[next_part].record.offset == position) {
                if (auto ok = index_part(end); !ok)
                    return ok;
                continue;
            }
            if (end - position < kPrefixSize)
                return damaged(fmt::format("a record at {} is cut short", position));
            auto bytes = view(position, kPrefixSize);
            if (!bytes)
                return bytes.error();
            RecordPrefix prefix = RecordPrefix::decode(bytes->first<kPrefixSize>());
            if (prefix.type == RecordType::segment || prefix.type == RecordType::footer)
                return damaged(
                    fmt::format("{} at {} is not in the index", describe(prefix.type), position));
            if (prefix.length > kMaxRecord || prefix.length > end - position - kPrefixSize)
                return damaged(fmt::format("{} at {} claims {} bytes, more than there are",
                                           describe(prefix.type), position, prefix.length));
            uint64_t total = kPrefixSize + prefix.length;
            bytes = view(position, total);
            if (!bytes)
                return bytes.error();
            if (!prefix.matches(bytes->subspan(kPrefixSize)))
                return damaged(
                    fmt::format("{} at {} is damaged (checksum)", describe(prefix.type), position));
            if (auto ok = prefix.check(); !ok)
                return ok;
            if (covered)
                covered->add(*bytes);
            if (!prefix.is_structure()) {
                auto ok = f({.type = prefix.type,
                             .version = prefix.version,
                             .flags = prefix.flags,
                             .offset = position,
                             .payload = bytes->subspan(kPrefixSize)});
                if (!ok)
                    return ok;
            }
            position += total;
        }
        return {};
    };
    uint64_t end = footer_.length - kFooterSize;
    auto ok = each_segment([&](const IndexPart &p, size_t i) -> Result<void> {
        ByteRange segment = p.segment(i);
        if (segment.offset < position || segment.offset > end || segment.length < kPrefixSize ||
            segment.length > end - segment.offset)
            return damaged("the index has an impossible segment");
        if (auto walked = metadata(segment.offset); !walked)
            return walked;
        position = segment.end();
        return {};
    });
    if (!ok)
        return ok;
    return metadata(end);
}

Result<void> Image::records(const std::function<Result<void>(const RecordView &)> &f)
{
    auto ok = walk(nullptr, f);
    if (!ok)
        return failure(ok.error());
    return ok;
}

} // namespace cryo::image
