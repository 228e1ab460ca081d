// SPDX-License-Identifier: Apache-2.0
//
// Description is everything in an image but the contents of its pages: header, records,
// which pages it has. It is read from a file by its index, or from a stream as it passes by.
//
//     Result<Description> d = Description::of(*image);
//     for (const Region &r : d->all<Region>())
//         PageCounts here = d->pages_of(r);
#pragma once

#include <optional>
#include <vector>

#include "image/reader.hpp"
#include "image/records.hpp"

namespace cryo::inspect {

struct StoredRecord {
    image::RecordType type{};
    uint16_t version = 0;
    uint16_t flags = 0;
    uint64_t offset = 0;
    std::vector<uint8_t> payload = {};
};

struct PageCounts {
    uint64_t data = 0;
    uint64_t zero = 0;
    uint64_t base = 0;

    uint64_t all() const { return data + zero + base; }
    void operator+=(const PageCounts &more)
    {
        data += more.data;
        zero += more.zero;
        base += more.base;
    }
};

class Description
{
  public:
    static Result<Description> of(image::Image &image);
    // All images of a stream, one after the other: an archive's tree is the last one.
    static Result<std::vector<Description>> of_stream(int fd, const std::string &name);

    std::string name = {};
    image::Header header = {};
    image::Footer footer = {};
    uint64_t offset = 0; // of the image in its file
    std::vector<StoredRecord> records = {};
    std::vector<image::Extent> extents = {};          // in order of (object, page)
    std::optional<image::Statistics> statistics = {}; // not of a stream
    // Of a process's delta in a file: the images that it needs, its base first; or why they cannot
    // be read.
    std::vector<std::string> bases = {};
    std::optional<Error> lacks = {};

    // Records of one type; text in them points into this description.
    template <class R>
    std::vector<R> all() const
    {
        std::vector<R> out;
        for (const StoredRecord &stored : records) {
            R record;
            if (stored.type == R::type && image::decode(stored.payload, record))
                out.push_back(record);
        }
        return out;
    }
    // The first one, or one with every field at its default.
    template <class R>
    R one() const
    {
        auto found = all<R>();
        return found.empty() ? R{} : found[0];
    }

    std::vector<std::string> arguments() const;
    std::vector<std::string> environment() const;

    PageCounts pages() const { return pages_; }
    PageCounts pages_of(uint32_t object, uint64_t first, uint64_t count) const;
    PageCounts pages_of(const image::Region &region) const;

  private:
    void follow(image::Image &image); // to its bases
    void settle();                    // sorts and counts what was collected

    PageCounts pages_ = {};
};

inline uint64_t region_pages(const image::Region &region)
{
    return region.end > region.start ? (region.end - region.start) / image::kPageSize : 0;
}

} // namespace cryo::inspect
