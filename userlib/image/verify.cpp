// SPDX-License-Identifier: Apache-2.0
//
// Image::verify(): the checks that opening an image leaves out, as they read all of it.
#include <algorithm>
#include <cerrno>
#include <fmt/format.h>

#include "image/reader.hpp"
#include "image/records.hpp"

namespace cryo::image {

class Verifier
{
  public:
    Verifier(Image &image, size_t most) : image_(image), most_(most) {}

    std::vector<Finding> run()
    {
        records();
        for (size_t i = 0; i < image_.parts_.size() && !enough(); i++)
            part(i);
        totals();
        return std::move(findings_);
    }

  private:
    void records();
    void part(size_t number);
    void overlaps(size_t number);
    void segment(size_t part_number, size_t number);
    void package(uint64_t number, const Package &package);
    void gap(uint64_t from, uint64_t to);
    void totals();
    void finding(uint64_t offset, std::string text)
    {
        if (!enough())
            findings_.push_back({offset, std::move(text)});
    }
    bool enough() const { return findings_.size() >= most_; }

    Image &image_;
    size_t most_;
    std::vector<Finding> findings_;
    std::vector<uint8_t> head_ = std::vector<uint8_t>(kMaxSegmentHead);
    std::vector<uint8_t> unpacked_ = std::vector<uint8_t>(kMaxPackageBlocks * kPageSize);
    uint64_t next_block_ = 0;
    uint64_t next_package_ = 0;
    uint64_t part_pages_ = 0; // in extents of segments of the current part
    uint64_t stored_ = 0;
};

void Verifier::records()
{
    auto ok = image_.walk(nullptr, [&](const RecordView &view) -> Result<void> {
        bool known = with_record_type(view.type, [&]<class R>() {
            R record;
            if (!decode(view.payload, record))
                finding(view.offset, describe(view.type) + " is too short");
        });
        if (!known && name_of(view.type))
            finding(view.offset, describe(view.type) + " does not belong here");
        return {};
    });
    if (!ok)
        finding(0, ok.error().text());
}

void Verifier::part(size_t number)
{
    auto loaded = image_.part(number);
    if (!loaded)
        return finding(image_.parts_[number].record.offset, loaded.error().text());
    part_pages_ = 0;
    size_t segments = (*loaded)->segment_count();
    uint64_t expected = (*loaded)->first_package() + (*loaded)->package_count();
    uint64_t pages = 0;
    for (size_t i = 0; i < (*loaded)->extent_count(); i++)
        pages += (*loaded)->extent(i).count;
    for (size_t i = 0; i < segments && !enough(); i++)
        segment(number, i);
    if (enough())
        return;
    uint64_t at = image_.parts_[number].record.offset;
    if (next_package_ != expected)
        finding(at,
                fmt::format("part {} of the index has other packages than its segments", number));
    if (part_pages_ != pages)
        finding(at, fmt::format("part {} of the index has other pages than its segments", number));
    overlaps(number);
}

// The order of extents excludes overlaps within a part; a page may still be in two parts.
void Verifier::overlaps(size_t number)
{
    const PartEntry &mine = image_.parts_[number];
    for (size_t other = 0; other < number && !enough(); other++) {
        const PartEntry &theirs = image_.parts_[other];
        if (std::pair(theirs.last_object, theirs.end_page) <=
                std::pair(mine.first_object, mine.first_page) ||
            std::pair(mine.last_object, mine.end_page) <=
                std::pair(theirs.first_object, theirs.first_page))
            continue;
        for (size_t i = 0; !enough(); i++) {
            auto loaded = image_.part(number);
            if (!loaded || i == (*loaded)->extent_count())
                break;
            Extent e = (*loaded)->extent(i);
            loaded = image_.part(other);
            if (!loaded)
                break;
            size_t at = (*loaded)->lower_bound(e.object, e.page);
            if (at == (*loaded)->extent_count())
                continue;
            Extent there = (*loaded)->extent(at);
            if (there.object == e.object && there.page < e.end())
                finding(mine.record.offset, fmt::format("the index has object {} page {:#x} twice",
                                                        e.object, std::max(e.page, there.page)));
        }
    }
}

void Verifier::segment(size_t part_number, size_t number)
{
    auto loaded = image_.part(part_number);
    if (!loaded)
        return finding(0, loaded.error().text());
    ByteRange place = (*loaded)->segment(number);
    uint64_t payload = place.offset + kPrefixSize;
    auto bad = [&](std::string text) { finding(place.offset, std::move(text)); };

    auto start = image_.view(place.offset,
                             std::min<uint64_t>(place.length, kPrefixSize + SegmentHead::kFixed));
    if (!start)
        return bad(start.error().text());
    if (start->size() < kPrefixSize + SegmentHead::kFixed)
        return bad("a segment is too short");
    RecordPrefix prefix = RecordPrefix::decode(start->first<kPrefixSize>());
    if (prefix.type != RecordType::segment || prefix.length != place.length - kPrefixSize)
        return bad("what the index calls a segment is none");
    auto size = SegmentHead::size(start->subspan(kPrefixSize).first<SegmentHead::kFixed>(),
                                  prefix.version, prefix.length);
    if (!size)
        return bad(size.error().text());
    auto bytes = image_.source_.fetch(image_.start_ + payload, *size, head_);
    if (!bytes)
        return bad(bytes.error().text());
    if (!prefix.matches(*bytes))
        return bad("a segment's head is damaged (checksum)");
    if (auto ok = prefix.check(); !ok)
        return bad(ok.error().text());
    auto head = SegmentHead::parse(*bytes, prefix.version, payload, prefix.length,
                                   image_.header_.package_blocks);
    if (!head)
        return bad(head.error().text());
    if (head->first_block() != next_block_ || head->first_package() != next_package_)
        return bad("a segment's blocks do not follow those of the one before");
    if (next_block_ % image_.header_.package_blocks && head->block_count())
        return bad("an incomplete package is not the last one");

    for (const Extent &e : head->extents()) {
        part_pages_ += e.count;
        // The index may have joined the extent with its neighbours.
        size_t at = (*loaded)->lower_bound(e.object, e.page);
        Extent whole = at < (*loaded)->extent_count() ? (*loaded)->extent(at) : Extent{};
        uint64_t skip = e.page - whole.page;
        if (whole.object != e.object || whole.kind != e.kind || whole.page > e.page ||
            whole.end() < e.end() ||
            (e.kind != ExtentKind::zero && whole.source + skip != e.source))
            bad(fmt::format("the index does not have object {} page {:#x} as its segment has it",
                            e.object, e.page));
        if (e.kind == ExtentKind::base && !image_.header_.is_delta())
            bad("it refers to a base image but names none");
    }
    uint64_t end = payload + *size;
    for (const Package &p : head->packages()) {
        uint64_t in_part = next_package_ - (*loaded)->first_package();
        if (in_part >= (*loaded)->package_count() || (*loaded)->package(in_part) != p)
            return bad(
                fmt::format("package {} is not in the index as in its segment", next_package_));
        gap(end, p.offset);
        package(next_package_, p);
        end = p.offset + p.stored;
        next_package_++;
        stored_ += p.stored;
    }
    next_block_ += head->block_count();
}

void Verifier::package(uint64_t number, const Package &package)
{
    uint64_t blocks = image_.footer_.blocks;
    if (number * image_.header_.package_blocks >= blocks)
        return finding(package.offset, fmt::format("package {} has no blocks", number));
    auto ok = image_.load_package(number, package,
                                  MutableBytes(unpacked_).first(image_.package_size(number)));
    if (!ok)
        finding(package.offset, ok.error().text());
}

void Verifier::gap(uint64_t from, uint64_t to)
{
    if (from == to)
        return;
    auto bytes = image_.view(from, to - from);
    if (!bytes)
        return finding(from, bytes.error().text());
    if (std::ranges::any_of(*bytes, [](uint8_t b) { return b != 0; }))
        finding(from, "bytes between two packages should be zero");
}

void Verifier::totals()
{
    const Footer &f = image_.footer_;
    if (findings_.empty() &&
        (next_block_ != f.blocks || next_package_ != f.packages || stored_ != f.stored))
        finding(f.length - kFooterSize, "the footer's totals are not those of the image");
}

std::vector<Finding> Image::verify(size_t most)
{
    return Verifier(*this, most).run();
}

} // namespace cryo::image
