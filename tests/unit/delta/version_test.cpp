// SPDX-License-Identifier: Apache-2.0
//
// Versions: contents survive a round trip, through chains and plain bases; bad input gives an error
// and never other contents; one block costs one package.
#include <fcntl.h>
#include <filesystem>

#include "delta/finder.hpp"
#include "files.hpp"

namespace cryo::delta {
namespace {

using namespace cryo::image;

struct Shape {
    uint32_t block_size = kDefaultBlock;
    Packing packing = Packing::smallest;
    uint32_t package_blocks = 4;
};

// One series in a directory, without a service.
class Series
{
  public:
    explicit Series(const Shape &shape = {}) : shape_(shape) {}

    std::string path(size_t i) const { return dir_ / ("v" + std::to_string(i)); }
    const std::vector<uint8_t> &contents(size_t i) const { return contents_[i]; }
    Committed save(const std::vector<uint8_t> &bytes, std::optional<size_t> base = {})
    {
        Memory source(bytes);
        auto now = sign(source, shape_.block_size);
        EXPECT_TRUE(now);
        VersionPlan plan{.about = {.number = uint32_t(signatures_.size()), .name = "file"},
                         .now = *now,
                         .packing = shape_.packing,
                         .package_blocks = shape_.package_blocks};
        if (base) {
            plan.about.base = DeltaBase::image;
            plan.base = &signatures_[*base];
            plan.base_image = {images_[*base].id, images_[*base].checksum};
        }
        auto done = write_version(source, plan, scratch_sink(path(signatures_.size())));
        EXPECT_TRUE(done) << error_of(done);
        signatures_.push_back(*now);
        contents_.push_back(bytes);
        images_.push_back(*done);
        return *done;
    }
    Result<std::unique_ptr<Version>> open(size_t i) const { return Finder{}.open_whole(path(i)); }
    void expect_restored(size_t i) const
    {
        auto version = open(i);
        ASSERT_TRUE(version) << error_of(version);
        Kept out;
        auto ok = write_contents(**version, nullptr, out);
        ASSERT_TRUE(ok) << error_of(ok);
        EXPECT_TRUE(out.committed);
        EXPECT_EQ(out.bytes, contents_[i]) << i;
        auto signature = (*version)->signature(
            (*version)->about().is_complete() ? nullptr : &signatures_[base_of(**version)]);
        ASSERT_TRUE(signature) << error_of(signature);
        EXPECT_EQ(signature->blocks, signatures_[i].blocks);
        EXPECT_TRUE((*version)->check_blocks()) << i;
    }
    const Signature &signature(size_t i) const { return signatures_[i]; }
    const Scratch &dir() const { return dir_; }

  private:
    size_t base_of(Version &version) const
    {
        for (size_t i = 0; i < images_.size(); i++)
            if (images_[i].id == version.image().header().base_id)
                return i;
        return 0;
    }

    Shape shape_;
    Scratch dir_;
    std::vector<Signature> signatures_;
    std::vector<std::vector<uint8_t>> contents_;
    std::vector<Committed> images_;
};

TEST(Version, ComesBackWhateverItsSize)
{
    for (uint32_t block : {4096u, 16384u, 1048576u})
        for (size_t size : {size_t(0), size_t(1), size_t(4095), size_t(4096), size_t(4097),
                            size_t(block) - 1, size_t(block) + 1, size_t(3) * block + 5000}) {
            Series series({.block_size = block, .packing = Packing::smallest});
            Blocks file(size / block + 1, block);
            file.resize(size);
            series.save(file.bytes());
            file.change(size / block / 2);
            series.save(file.bytes(), 0);
            file.resize(size + 4096); // grows
            series.save(file.bytes(), 1);
            file.resize(size / 2); // and shrinks
            series.save(file.bytes(), 2);
            for (size_t i = 0; i < 4; i++)
                series.expect_restored(i);
        }
}

TEST(Version, RandomChangesWithEveryCodec)
{
    std::mt19937_64 random(11);
    for (Packing packing : {Packing::raw, Packing::lz4, Packing::zstd, Packing::shuffle_lz4,
                            Packing::automatic, Packing::smallest}) {
        Series series({.block_size = 8192, .packing = packing});
        Blocks file(150, 8192);
        file.resize(150 * 8192 - 100);
        series.save(file.bytes());
        for (size_t i = 1; i < 12; i++) {
            for (size_t n = random() % 40; n; n--)
                random() % 4 ? file.change(random() % 149) : file.zero(random() % 149);
            series.save(file.bytes(), random() % i);
        }
        for (size_t i = 0; i < 12; i++)
            series.expect_restored(i);
    }
}

TEST(Version, ADeltaHoldsWhatChangedAndNoMore)
{
    Series series;
    Blocks file(1000, 4096);
    series.save(file.bytes());
    for (size_t i : {5u, 6u, 500u})
        file.change(i);
    Committed delta = series.save(file.bytes(), 0);
    EXPECT_EQ(delta.blocks, 3u + 1); // and one page of signature
    EXPECT_LT(delta.size, 3 * 4096u + 6 * 4096u);
    auto version = series.open(1);
    ASSERT_TRUE(version);
    const auto &runs = (*version)->runs();
    ASSERT_EQ(runs.size(), 5u);
    EXPECT_TRUE(runs[1].changed && runs[1].first == 5 && runs[1].count == 2);
    EXPECT_EQ((*version)->partial_signature()->size(), 3u);
}

// Reading one block of a compressed image unpacks one package and no other.
TEST(Version, OneBlockIsOnePackage)
{
    Series series({.packing = Packing::shuffle_lz4, .package_blocks = 16});
    std::vector<uint8_t> bytes(4096 * 1024);
    for (size_t i = 0; i < bytes.size(); i++)
        bytes[i] = uint8_t(i % 8 == 7 ? i / 4096 : i % 8);
    series.save(bytes);
    for (size_t i = 0; i < 8; i++)
        bytes[4096 * (100 + i)] ^= 0xff;
    series.save(bytes, 0);
    std::vector<uint8_t> block(4096);
    for (uint64_t wanted : {0u, 101u, 107u, 512u, 1023u}) {
        auto version = series.open(1);
        ASSERT_TRUE(version);
        Image &delta = (*version)->image();
        Image &base = **delta.base();
        ASSERT_TRUE(Contents(**version).read(wanted * 4096, block));
        EXPECT_EQ(memcmp(block.data(), bytes.data() + wanted * 4096, 4096), 0);
        EXPECT_EQ(delta.packages_loaded() + base.packages_loaded(), 1u) << wanted;
        EXPECT_EQ(delta.packages_loaded(), wanted >= 100 && wanted < 108 ? 1u : 0u);
    }
}

TEST(Version, AMissingOrDamagedBaseIsNamed)
{
    Series series;
    Blocks file(20, 4096);
    series.save(file.bytes());
    file.change(2);
    series.save(file.bytes(), 0);
    file.change(3);
    series.save(file.bytes(), 1);
    auto in_chain = [&] { return error_of(series.open(2)); };
    ASSERT_EQ(in_chain(), "");
    std::vector<uint8_t> good = slurp(series.path(0));
    std::filesystem::remove(series.path(0));
    EXPECT_NE(in_chain().find("v1: image "), std::string::npos) << in_chain();
    EXPECT_NE(in_chain().find("not found beside it"), std::string::npos);
    spew(series.path(0), std::vector<uint8_t>(good.begin(), good.end() - 4096));
    EXPECT_NE(in_chain().find("v0: not committed"), std::string::npos) << in_chain();
    spew(series.path(0), good);
    EXPECT_EQ(in_chain(), "");
}

TEST(Version, DeltaOnAPlainFile)
{
    Blocks file(30, 4096);
    file.resize(30 * 4096 - 7);
    Memory base(file.bytes());
    auto before = sign(base, 4096);
    file.change(4);
    file.resize(40 * 4096 + 3);
    Memory source(file.bytes());
    auto now = sign(source, 4096);
    Scratch dir;
    VersionPlan plan{.about = {}, .now = *now, .base = &*before};
    plan.about.base = DeltaBase::file;
    ASSERT_TRUE(write_version(source, plan, scratch_sink(dir / "delta")));
    auto version = Version::open(dir / "delta");
    ASSERT_TRUE(version) << error_of(version);
    EXPECT_EQ((*version)->about().changed, 13u); // the 4th, the one that was short, 11 more
    Kept out;
    ASSERT_TRUE(write_contents(**version, &base, out));
    EXPECT_EQ(out.bytes, file.bytes());
    // Another file gives no contents at all.
    Memory wrong(Blocks(30, 4096, 9).bytes());
    Kept nothing;
    EXPECT_NE(error_of(write_contents(**version, &wrong, nothing)).find("is not its base"),
              std::string::npos);
    EXPECT_FALSE(nothing.committed);
    EXPECT_NE(error_of(check_contents(**version, nullptr)).find("--base"), std::string::npos);
}

TEST(Version, AFileThatChangesWhileItIsReadIsRefused)
{
    Blocks file(10, 4096);
    Memory first(file.bytes());
    auto now = sign(first, 4096);
    file.change(7);
    Memory second(file.bytes());
    Scratch dir;
    VersionPlan plan{.about = {}, .now = *now};
    auto done = write_version(second, plan, scratch_sink(dir / "version"));
    EXPECT_NE(error_of(done).find("block 7 changed"), std::string::npos);
    EXPECT_FALSE(std::filesystem::exists(dir / "version"));
}

// The result of reading an image: "" for its contents, or an error.
std::string outcome(const std::string &path, const std::string &expected)
{
    auto version = Finder{}.open_whole(path);
    if (!version)
        return error_of(version);
    Kept out;
    if (auto ok = write_contents(**version, nullptr, out); !ok)
        return error_of(ok);
    std::string got(out.bytes.begin(), out.bytes.end());
    EXPECT_TRUE(got == expected) << "other contents, without an error";
    return "";
}

class BadInput : public testing::Test
{
  protected:
    BadInput()
    {
        Blocks file(6, 4096);
        file.resize(5 * 4096 + 99);
        series_.save(file.bytes());
        file.change(1);
        file.zero(3);
        series_.save(file.bytes(), 0);
        expected_.assign(file.bytes().begin(), file.bytes().end());
        image_ = slurp(series_.path(1));
        path_ = series_.dir() / "bad";
        std::filesystem::remove(series_.path(1));
    }

    Series series_;
    std::string expected_;
    std::vector<uint8_t> image_;
    std::string path_;
};

TEST_F(BadInput, TruncatedAtEveryByte)
{
    spew(path_, image_);
    std::filesystem::permissions(path_, std::filesystem::perms::owner_all);
    ASSERT_EQ(outcome(path_, expected_), "");
    for (size_t size = image_.size(); size-- > 0;) {
        ASSERT_EQ(truncate(path_.c_str(), off_t(size)), 0);
        ASSERT_NE(outcome(path_, expected_), "") << size;
    }
}

// Every bit: an error, or still the right contents (some tables are stored twice in an image);
// verifying the image finds each flip.
TEST_F(BadInput, EveryBitFlipped)
{
    spew(path_, image_);
    Fd fd(open(path_.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd);
    for (size_t bit = 0; bit < image_.size() * 8; bit++) {
        size_t at = bit / 8;
        // The long zero tails of header and footer pages are alike: one bit of each byte is enough.
        if (image_[at] == 0 && bit % 8 != at % 8)
            continue;
        auto flipped = uint8_t(image_[at] ^ (1u << bit % 8));
        ASSERT_EQ(pwrite(fd.get(), &flipped, 1, off_t(at)), 1);
        if (outcome(path_, expected_).empty()) {
            auto image = Image::open(path_);
            ASSERT_TRUE(image && !(*image)->verify().empty()) << "bit " << bit;
        }
        ASSERT_FALSE(HasFailure()) << "bit " << bit;
        ASSERT_EQ(pwrite(fd.get(), &image_[at], 1, off_t(at)), 1);
    }
    ASSERT_EQ(outcome(path_, expected_), "");
}

TEST_F(BadInput, OtherImagesAreToldApart)
{
    ASSERT_TRUE((*ImageWriter::create(scratch_sink(path_)))->commit());
    EXPECT_NE(outcome(path_, expected_).find("no version of a file"), std::string::npos);
    spew(path_, std::vector<uint8_t>(10000, 'x'));
    EXPECT_NE(outcome(path_, expected_).find("not a Cryo image"), std::string::npos);
}

} // namespace
} // namespace cryo::delta
