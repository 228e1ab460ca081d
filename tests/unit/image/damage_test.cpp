// SPDX-License-Identifier: Apache-2.0
//
// Bad input: an image cut at every byte, every bit flipped, numbers forged with correct checksums.
// Each gives a clear error through every reader; none crashes, hangs or exhausts memory.
#include <fcntl.h>
#include <unistd.h>

#include "forger.hpp"

namespace cryo::image {
namespace {

// A small image with some of every kind of content.
std::vector<uint8_t> small_image(const Scratch &dir, Packing packing)
{
    std::mt19937_64 r(99);
    Model m;
    m.records.push_back({.type = RecordType(1000), .payload = {1, 2, 3}});
    for (uint64_t i = 0; i < 5; i++)
        m.pages[{0, i + i / 3}] = random_page(r);
    m.pages[{1, 1000}].fill(7);
    write_image(dir / "small", m,
                {.packing = packing, .package_blocks = 4, .synchronous = true, .index_part = 1});
    return slurp(dir / "small");
}

class Damage : public testing::TestWithParam<Packing>
{};

// A stream reader reports every truncation as such, since at least the footer is incomplete.
TEST_P(Damage, TruncatedAtEveryByte)
{
    Scratch dir;
    std::vector<uint8_t> whole = small_image(dir, GetParam());
    ASSERT_LE(whole.size(), 64u * 1024);
    ASSERT_EQ(error_of_stream(dir / "small"), "");
    std::string path = dir / "cut";
    spew(path, whole);
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    for (size_t size = whole.size(); size-- > 0;) {
        ASSERT_EQ(truncate(path.c_str(), off_t(size)), 0);
        ASSERT_NE(error_of_open(path, Access::pread), "") << size;
        ASSERT_NE(error_of_open(path, Access::map), "") << size;
        std::string error = error_of_stream(path);
        ASSERT_NE(error, "") << size;
        if (size > kHeaderSize) {
            ASSERT_NE(error.find("truncated"), std::string::npos) << size << ": " << error;
        }
    }
}

// Each byte of the image is covered by some check.
TEST_P(Damage, EveryFlippedBitIsFound)
{
    Scratch dir;
    std::vector<uint8_t> bytes = small_image(dir, GetParam());
    std::string path = dir / "flipped";
    spew(path, bytes);
    Fd fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_TRUE(fd);
    std::mt19937_64 r(5);
    for (size_t at = 0; at < bytes.size(); at++) {
        // All bits of a byte are checked alike; one per byte keeps the test short.
        auto flipped = uint8_t(bytes[at] ^ (1u << r() % 8));
        ASSERT_EQ(pwrite(fd.get(), &flipped, 1, off_t(at)), 1);
        auto image = Image::open(path, {.access = Access::map});
        ASSERT_TRUE(!image || !(*image)->verify().empty()) << "byte " << at;
        ASSERT_NE(error_of_stream(path), "") << "byte " << at;
        ASSERT_EQ(pwrite(fd.get(), &bytes[at], 1, off_t(at)), 1);
    }
    ASSERT_EQ(error_of_open(path, Access::map), "");
}

INSTANTIATE_TEST_SUITE_P(Packings, Damage, testing::Values(Packing::raw, Packing::shuffle_lz4),
                         [](const auto &packing) {
                             return packing.param == Packing::raw ? "raw" : "shuffle_lz4";
                         });

TEST(NotAnImage, IsSaid)
{
    Scratch dir;
    std::string path = dir / "file";
    for (size_t size : {0, 1, 7, 8, 4096, 8192, 100000}) {
        spew(path, std::vector<uint8_t>(size, 'x'));
        for (Access access : {Access::pread, Access::map})
            EXPECT_NE(error_of_open(path, access).find("not a Cryo image"), std::string::npos)
                << size << ": " << error_of_open(path, access);
        EXPECT_NE(error_of_stream(path), "");
    }
    EXPECT_NE(error_of_open(dir / "absent", Access::pread).find("No such file"), std::string::npos);
    EXPECT_NE(error_of_open(dir.path().string(), Access::pread).find("is a directory"),
              std::string::npos);
    ASSERT_EQ(symlink("file", (dir / "link").c_str()), 0);
    EXPECT_NE(error_of_open(dir / "link", Access::pread).find("symbolic link"), std::string::npos);
}

TEST(NotAnImage, NothingMayStandInFrontOfIt)
{
    Scratch dir;
    std::vector<uint8_t> image = small_image(dir, Packing::raw);
    std::vector<uint8_t> more(kPageSize);
    more.insert(more.end(), image.begin(), image.end());
    spew(dir / "more", more);
    EXPECT_NE(error_of_open(dir / "more", Access::pread).find("begins with something"),
              std::string::npos);
}

TEST(Forged, NumbersAreRefused)
{
    Scratch dir;
    std::vector<uint8_t> bytes = small_image(dir, Packing::lz4);
    Forger good(bytes);
    good.sign_above();
    spew(dir / "again", bytes);
    ASSERT_EQ(error_of_stream(dir / "again"), "") << "the forger signs wrongly";

    // Each field of the tables and totals, with each of the awkward values.
    struct Place {
        const char *what;
        RecordType type;
        size_t offset; // from the beginning of the record
        size_t size;
    };
    const Place places[] = {
        {"segment: first block", RecordType::segment, 24, 8},
        {"segment: first package", RecordType::segment, 32, 8},
        {"segment: packages", RecordType::segment, 40, 4},
        {"segment: extents", RecordType::segment, 44, 4},
        {"segment: head size", RecordType::segment, 48, 4},
        {"segment: reserved", RecordType::segment, 52, 4},
        {"segment: stored size", RecordType::segment, 56, 4},
        {"segment: codec", RecordType::segment, 60, 4},
        {"segment: length", RecordType::segment, 8, 8},
        {"part: first package", RecordType::index_part, 24, 8},
        {"part: segments", RecordType::index_part, 32, 4},
        {"part: packages", RecordType::index_part, 36, 4},
        {"part: extents", RecordType::index_part, 40, 4},
        {"part: segment offset", RecordType::index_part, 48, 8},
        {"part: segment length", RecordType::index_part, 56, 8},
        {"part: package offset", RecordType::index_part, 64, 8},
        {"part: stored size", RecordType::index_part, 72, 4},
        {"part: codec", RecordType::index_part, 76, 4},
        {"directory: parts", RecordType::directory, 24, 4},
        {"directory: offset", RecordType::directory, 32, 8},
        {"directory: length", RecordType::directory, 40, 8},
        {"directory: first package", RecordType::directory, 64, 8},
        {"directory: packages", RecordType::directory, 72, 8},
        {"directory: first object", RecordType::directory, 80, 4},
        {"directory: last page", RecordType::directory, 96, 8},
        {"footer: length", RecordType::footer, 48, 8},
        {"footer: directory", RecordType::footer, 56, 8},
        {"footer: directory length", RecordType::footer, 64, 8},
        {"footer: blocks", RecordType::footer, 72, 8},
        {"footer: packages", RecordType::footer, 80, 8},
        {"footer: stored", RecordType::footer, 88, 8},
        {"footer: records", RecordType::footer, 96, 8},
    };
    const uint64_t numbers[] = {0,          1,          2,          3,          63,
                                64,         255,        4095,       4096,       4097,
                                0x7fffffff, 0x80000000, 0xfffffff0, 0xffffffff, 1ull << 40,
                                1ull << 52, 1ull << 63, ~0ull};
    for (const Place &place : places) {
        for (uint64_t number : numbers) {
            Forger f(bytes);
            size_t at = f.find(place.type);
            uint64_t was = place.size == 8 ? f.get<uint64_t>(at + place.offset)
                                           : f.get<uint32_t>(at + place.offset);
            if (number == was || (place.size == 4 && number > UINT32_MAX))
                continue;
            if (place.size == 8)
                f.put(at + place.offset, number);
            else
                f.put(at + place.offset, uint32_t(number));
            f.sign_record(at);
            if (place.type != RecordType::segment || place.offset != 8)
                f.sign_above();
            f.expect_refused(dir, std::string(place.what) + " = " + std::to_string(number));
        }
    }
}

TEST(Forged, ExtentsAreRefused)
{
    Scratch dir;
    std::vector<uint8_t> bytes = small_image(dir, Packing::raw);
    for (size_t offset : {0, 4, 8, 16, 24}) {
        for (uint64_t number : {uint64_t(0), uint64_t(3), uint64_t(1) << 51, ~uint64_t(0)}) {
            Forger f(bytes);
            size_t at = f.find(RecordType::segment);
            size_t extent = at + kPrefixSize + 32 + 24 * f.get<uint32_t>(at + 40);
            size_t part = f.find(RecordType::index_part);
            size_t in_part = part + kPrefixSize + 24 + 16 * f.get<uint32_t>(part + 32) +
                             32 * f.get<uint32_t>(part + 36);
            for (size_t place : {extent, in_part}) {
                Forger one(f);
                if (offset < 8) {
                    if (one.get<uint32_t>(place + offset) == uint32_t(number))
                        continue;
                    one.put(place + offset, uint32_t(number));
                } else {
                    if (one.get<uint64_t>(place + offset) == number)
                        continue;
                    one.put(place + offset, number);
                }
                one.sign_record(place == extent ? at : part);
                one.sign_above();
                // A stream reader does not use the index.
                std::string path = dir / "forged";
                one.save(path);
                auto image = Image::open(path);
                EXPECT_TRUE(!image || !(*image)->verify().empty())
                    << offset << " = " << number << (place == extent ? " in segment" : " in index");
            }
        }
    }
}

} // namespace
} // namespace cryo::image
