// SPDX-License-Identifier: Apache-2.0
//
// A version of a file in an image: complete, a delta, or only its signature.
//
//     auto version = Version::open("job.d7", find_base);
//     if (auto whole = (*version)->check_chain(); !whole) ...   // names the base that is missing
//     Contents contents(**version);
//     contents.read(0, bytes);                                  // through as many images as needed
//
// Opening checks everything that can be checked without reading the contents: sizes and counts
// agree, every block is accounted for exactly once. Memory use follows the extents and changed
// blocks that the image really has, never a number that it claims.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "delta/signature.hpp"
#include "image/reader.hpp"
#include "image/records.hpp"
#include "image/writer.hpp"

namespace cryo::delta {

inline constexpr uint32_t kContentsObject = 1;
inline constexpr uint32_t kSignatureObject = 2;

// The record DELTA, with its own copies of the strings.
struct About {
    Digest series = {};
    uint32_t number = 0;
    uint32_t base_number = 0;
    image::DeltaBase base{};
    uint32_t block_size = kDefaultBlock;
    uint64_t size = 0;
    uint64_t changed = 0;
    Digest content = {};
    Digest base_content = {};
    uint64_t base_size = 0;
    bool has_contents = true;
    std::string name = {};
    uint32_t mode = 0600;
    int64_t modified = 0;

    uint64_t blocks() const { return block_count(size, block_size); }
    uint32_t last_block() const;
    bool is_complete() const { return has_contents && base == image::DeltaBase::none; }
};

// Consecutive blocks that are all in this image, or all not.
struct BlockRun {
    uint64_t first = 0;
    uint64_t count = 0;
    bool changed = false;
};

class Version
{
  public:
    static Result<std::unique_ptr<Version>> open(const std::string &path,
                                                 image::FindBase find_base = {});

    const About &about() const { return about_; }
    image::Image &image() { return *image_; }
    const std::string &name() const { return image_->name(); }
    const std::vector<BlockRun> &runs() const { return runs_; }

    // Opens the images that this one needs, to the last, and checks that each is the right one.
    // Returns how many there are, this one included.
    Result<unsigned> check_chain();

    // Digests of the changed blocks, in order.
    Result<std::vector<Digest>> partial_signature();
    // The whole signature; of a delta, `base` is that of its base.
    Result<Signature> signature(const Signature *base);
    // Reads every changed block and compares it with its digest.
    Result<void> check_blocks(const Progress &progress = {});

  private:
    explicit Version(std::unique_ptr<image::Image> image) : image_(std::move(image)) {}
    Result<void> load();
    Result<void> find_runs();
    bool refers_within(uint64_t base_blocks) const;
    Result<void> check_signature_object();

    std::unique_ptr<image::Image> image_;
    About about_;
    std::vector<BlockRun> runs_;
};

// The DELTA record of an image; EBADMSG if it has none, or an impossible one.
Result<About> about_of(image::Image &image);

// The contents of a version, assembled from the images of its chain. A version that is based on a
// plain file needs that file.
class Contents : public ByteSource
{
  public:
    explicit Contents(Version &version, ByteSource *base_file = nullptr)
        : version_(version), base_file_(base_file)
    {}

    const std::string &name() const override { return version_.name(); }
    uint64_t size() const override { return version_.about().size; }
    Result<void> read(uint64_t offset, MutableBytes to) override;

  private:
    Result<void> read_pages(uint64_t page, MutableBytes to);

    Version &version_;
    ByteSource *base_file_;
};

// Writes the contents to a sink and commits it if their digest is right; else nothing becomes
// visible.
Result<void> write_contents(Version &version, ByteSource *base_file, image::Sink &sink,
                            const Progress &progress = {});
// Reads the contents and checks their digest.
Result<void> check_contents(Version &version, ByteSource *base_file, const Progress &progress = {});

struct VersionPlan {
    About about;                     // counts and digests are filled in
    const Signature &now;            // of the source
    const Signature *base = nullptr; // of the base, for a delta
    image::BaseImage base_image = {};
    image::Packing packing = image::Packing::smallest;
    uint32_t package_blocks = image::kMaxPackageBlocks;
    // Called with the id before the image becomes visible; an error stops it.
    std::function<Result<void>(const Digest &id)> before_commit = {};
};

// Writes an image of `source`, whose signature is `now`. Data read is compared with it.
Result<image::Committed> write_version(ByteSource &source, const VersionPlan &plan,
                                       std::unique_ptr<image::Sink> sink,
                                       const Progress &progress = {});

} // namespace cryo::delta
