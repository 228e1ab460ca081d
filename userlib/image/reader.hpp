// SPDX-License-Identifier: Apache-2.0
//
// Image reads one committed image out of a file. Opening it verifies header, footer, index and all
// metadata; packages of pages are verified when they are read.
//
//     Result<std::unique_ptr<Image>> image = Image::open("context.412", {.access = Access::map});
//     (*image)->for_each<Region>([&](const Region &r) { ... });
//     (*image)->read_pages(object, page, out);
//
// Opening a file by name opens its last image: the only one, or the tree image of an archive
// (snapshot.hpp). A delta image needs its bases for the pages that it leaves to them; `find_base`
// opens them when they are needed.
//
// Nothing in a file can make the reader use more memory than its buffers, about 16 MiB. Not for use
// by several threads at once.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/trust.hpp"
#include "image/codec.hpp"
#include "image/header.hpp"
#include "image/record_codec.hpp"
#include "image/source.hpp"
#include "image/tables.hpp"

namespace cryo::image {

class Image;

struct RecordView {
    RecordType type{};
    uint16_t version = 0;
    uint16_t flags = 0;
    uint64_t offset = 0; // of the record in the image
    Bytes payload;       // valid during the call; as long as the image where it is mapped
};

// Opens the image with this id. The caller checks that it really is the base.
using FindBase = std::function<Result<std::shared_ptr<Image>>(const Digest &id)>;

struct OpenOptions {
    Access access = Access::pread;
    std::optional<ByteRange> member = {}; // where the image is in the file
    FindBase find_base = {};
    // The users whose files may hold the image; null: any user, because nothing in it is executed.
    std::shared_ptr<const Trust> trust = {};
};

// How an image stores the pages from one page on.
struct Run {
    bool hole = true;   // no extent: as the region's backing gives it
    ExtentKind kind{};  // if not a hole
    uint64_t count = 0; // pages for which this holds
    uint64_t source = 0;
};

// Pages that lie in the file as they are.
struct Mappable {
    uint64_t file_offset = 0;
    uint64_t count = 0; // pages
};

struct Finding {
    uint64_t offset = 0; // in the image
    std::string text;
};

struct Statistics {
    uint64_t packages[kCodecCount] = {};
    uint64_t stored[kCodecCount] = {}; // bytes
    uint64_t raw[kCodecCount] = {};    // bytes before packing
    uint64_t data_pages = 0;
    uint64_t zero_pages = 0;
    uint64_t base_pages = 0;
};

class Image
{
  public:
    static Result<std::unique_ptr<Image>> open(const std::string &path, OpenOptions options = {});
    static Result<std::unique_ptr<Image>> open(Fd fd, std::string name, OpenOptions options = {});

    const std::string &name() const { return name_; }
    const Header &header() const { return header_; }
    const Footer &footer() const { return footer_; }
    ByteRange place() const { return {start_, footer_.length}; } // in the file
    int fd() const { return source_.fd(); }
    bool is_in_file_of(const Image &other) const;

    // Typed records in the order of the file, unknown ones included. An error of `f` ends the walk.
    Result<void> records(const std::function<Result<void>(const RecordView &)> &f);

    // The records of one type, decoded.
    template <class R, class F>
    Result<void> for_each(F &&f)
    {
        return records([&](const RecordView &view) -> Result<void> {
            if (view.type != R::type)
                return {};
            R record;
            if (!decode(view.payload, record))
                return damaged(describe(view.type) + " is too short");
            f(record);
            return {};
        });
    }

    // Describes the run of alike pages that begins at `page`.
    Result<Run> find(uint32_t object, uint64_t page);

    // All extents of the index, in order of (object, page) within each of its parts.
    Result<void> extents(const std::function<Result<void>(const Extent &)> &f);

    // Contents of pages, from base images where this one refers to them. Holes read as zeros, so a
    // caller that has a backing asks find() first. Packages are verified before anything of them
    // is used.
    Result<void> read_pages(uint32_t object, uint64_t page, MutableBytes out);

    // Where in the file to map pages from, or count 0: they are packed, zero, in another file, or
    // not there.
    Result<Mappable> mappable(uint32_t object, uint64_t page);

    // The base image of a delta, opened and checked on first use.
    Result<Image *> base();

    // An image that was found already. ESTALE: it is another one.
    Result<void> take_base(std::shared_ptr<Image> image);

    // Opens all images that this one needs and checks that they are the right ones: this one first.
    Result<std::vector<Image *>> chain();

    // Checks everything that open() has not: each segment, each package, each record's fields.
    // Empty: all is well. Stops looking after `most` findings.
    std::vector<Finding> verify(size_t most = 100);

    Result<Statistics> statistics();

    // Packages that were fetched, verified and unpacked so far: what reading has cost.
    uint64_t packages_loaded() const { return packages_loaded_; }

  private:
    Image(Source source, std::string name, OpenOptions options);

    struct LoadedPart {
        size_t number = 0;
        std::unique_ptr<uint8_t[]> bytes; // none where mapped
        Bytes record;                     // whole, with its prefix
        std::vector<uint8_t> unpacked;    // its tables, if they are packed
        IndexPart view;

        uint64_t in_memory() const { return (bytes ? record.size() : 0) + unpacked.size(); }
    };

    static Result<std::unique_ptr<Image>> open(Source source, std::string name,
                                               OpenOptions options);
    Result<void> open_footer();
    Result<void> open_index();
    Result<void> walk(Hasher *covered, const std::function<Result<void>(const RecordView &)> &f);
    Result<const IndexPart *> part(size_t number);
    Result<void> each_segment(const std::function<Result<void>(const IndexPart &, size_t)> &f);
    Result<const IndexPart *> part_of_package(uint64_t number);
    Result<std::pair<Package, uint64_t>> package_of(uint64_t block); // and its number
    size_t package_size(uint64_t number) const;
    Result<void> load_package(uint64_t number, const Package &package, MutableBytes out);
    Result<void> read_pages(uint32_t object, uint64_t page, MutableBytes out, unsigned depth);
    Result<void> read_blocks(uint64_t block, MutableBytes out);
    Result<Bytes> view(uint64_t offset, uint64_t length);
    Error failure(const Error &error) const { return error.within(name_); }

    friend class Verifier;

    Source source_;
    std::string name_;
    OpenOptions options_;
    uint64_t start_ = 0; // of the image in the file
    Header header_;
    Footer footer_;
    std::vector<PartEntry> parts_;
    std::vector<std::unique_ptr<LoadedPart>> loaded_; // recently used last
    Unpacker unpacker_;
    std::vector<uint8_t> stored_;  // a package as stored
    std::vector<uint8_t> package_; // the package that was unpacked last
    uint64_t package_number_ = UINT64_MAX;
    uint64_t packages_loaded_ = 0;
    std::shared_ptr<Image> base_;
};

} // namespace cryo::image
