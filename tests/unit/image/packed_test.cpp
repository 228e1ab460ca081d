// SPDX-License-Identifier: Apache-2.0
//
// Scattered pages: the tables that describe them are packed, so that a page costs little more than
// its bytes; they are read, checked and refused like other tables.
#include <cstring>

#include "forger.hpp"

namespace cryo::image {
namespace {

constexpr uint32_t object = 7;

// Like a delta: changed pages with unchanged ones in between.
Model apart(size_t pages, bool with_base, uint64_t seed = 1)
{
    std::mt19937_64 random(seed);
    Model model;
    const PageBytes some = random_page(random);
    for (uint64_t i = 0, page = 1000; i < pages; i++) {
        PageBytes &bytes = model.pages[{object, page++}] = some;
        std::memcpy(bytes.data(), &i, sizeof i);
        for (uint64_t gap = 1 + random() % 37; gap > 0; gap--, page++)
            if (with_base)
                model.in_base[{object, page}] = page;
    }
    return model;
}

// Writes as a delta does: in the order of pages.
Committed write_apart(const std::string &path, const Model &model, const WriterOptions &options)
{
    auto sink = FileSink::create(path, {.existing = Existing::replace, .sync = false});
    auto writer = ImageWriter::create(std::move(*sink), options);
    EXPECT_TRUE(writer) << writer.error().text();
    auto base = model.in_base.begin();
    const auto add_base = [&](const PageKey &before) {
        for (; base != model.in_base.end() && base->first < before; ++base) {
            EXPECT_TRUE(
                (*writer)->add_base(base->first.first, base->first.second, 1, base->second));
        }
    };
    for (const auto &[key, bytes] : model.pages) {
        add_base(key);
        EXPECT_TRUE((*writer)->add_pages(key.first, key.second, bytes));
    }
    add_base({UINT32_MAX, 0});
    auto done = (*writer)->commit();
    EXPECT_TRUE(done) << done.error().text();
    return *done;
}

std::map<RecordType, std::vector<RecordPrefix>> records_of(const std::vector<uint8_t> &bytes)
{
    std::map<RecordType, std::vector<RecordPrefix>> found;
    for (size_t at = kHeaderSize; at < bytes.size();) {
        const RecordPrefix prefix =
            RecordPrefix::decode(Bytes(bytes).subspan(at).first<kPrefixSize>());
        found[prefix.type].push_back(prefix);
        at += kPrefixSize + prefix.length;
    }
    return found;
}

// The base is not opened here.
const BaseImage some_base = {.id = {1, 2}, .checksum = {3, 4}};

TEST(Packed, APageThatLiesApartCostsLittleMoreThanItsBytes)
{
    Scratch dir;
    for (const bool delta : {false, true}) {
        SCOPED_TRACE(delta);
        const Model model = apart(12'000, delta);
        WriterOptions options;
        if (delta)
            options.base = some_base;
        const Committed done = write_apart(dir / "image", model, options);
        expect_sound(dir / "image", model);
        // A delta's digest of a page adds 24 bytes.
        EXPECT_LT(double(done.size - 2 * kPageSize) / (12'000 * kPageSize) + 24.0 / kPageSize,
                  1.02);
        auto records = records_of(slurp(dir / "image"));
        for (const RecordPrefix &segment : records[RecordType::segment]) {
            EXPECT_EQ(segment.version, kPackedSegmentVersion);
            EXPECT_EQ(segment.flags, kRequired | kRequiredVersion);
        }
        EXPECT_GT(records[RecordType::index_part].size(), 1u);
        for (const RecordPrefix &part : records[RecordType::index_part]) {
            EXPECT_EQ(part.version, kPackedIndexVersion);
            EXPECT_EQ(part.flags, kRequired | kRequiredVersion);
        }
    }
}

// An older reader can still read an image that needs no packed tables.
TEST(Packed, ShortTablesStayAsTheyAre)
{
    Scratch dir;
    Model model = apart(10, true);
    write_apart(dir / "image", model, {.base = some_base});
    expect_sound(dir / "image", model);
    for (const auto &[type, records] : records_of(slurp(dir / "image")))
        for (const RecordPrefix &record : records)
            EXPECT_EQ(record.version, 1) << describe(type);
}

// More parts than the cache holds, in random order.
TEST(Packed, PagesAreFoundInAnyOrder)
{
    Scratch dir;
    const Model model = apart(9'000, false);
    std::vector<PageKey> keys;
    for (const auto &[key, page] : model.pages)
        keys.push_back(key);
    std::mt19937_64 random(3);
    for (size_t index_part : {size_t(1), kMaxRecord / 2}) {
        write_apart(dir / "image", model, {.index_part = index_part});
        for (Access access : {Access::pread, Access::map}) {
            auto image = Image::open(dir / "image", {.access = access});
            ASSERT_TRUE(image) << image.error().text();
            for (int i = 0; i < 2000; i++) {
                const PageKey &key = keys[random() % keys.size()];
                PageBytes page;
                ASSERT_TRUE((*image)->read_pages(key.first, key.second, page));
                ASSERT_EQ(page, model.pages.at(key));
                auto run = (*image)->find(key.first, key.second + 1);
                ASSERT_TRUE(run);
            }
        }
    }
}

// Small, with both tables packed.
std::vector<uint8_t> packed_image(const Scratch &dir)
{
    write_apart(dir / "packed", apart(140, true),
                {.packing = Packing::lz4, .package_blocks = 64, .base = some_base});
    std::vector<uint8_t> bytes = slurp(dir / "packed");
    auto records = records_of(bytes);
    EXPECT_EQ(records[RecordType::segment].front().version, kPackedSegmentVersion);
    EXPECT_EQ(records[RecordType::index_part].front().version, kPackedIndexVersion);
    return bytes;
}

TEST(Packed, EveryFlippedBitIsFound)
{
    Scratch dir;
    const std::vector<uint8_t> bytes = packed_image(dir);
    Forger places(bytes);
    for (RecordType type : {RecordType::segment, RecordType::index_part}) {
        const size_t at = places.find(type);
        // Of a segment, only the part before the data.
        const size_t size = type == RecordType::segment
                                ? places.get<uint32_t>(at + kPrefixSize + 24)
                                : places.prefix(at).length;
        for (size_t i = at; i < at + kPrefixSize + size; i++) {
            std::vector<uint8_t> flipped = bytes;
            flipped[i] ^= 1u << i % 8;
            spew(dir / "flipped", flipped);
            auto image = Image::open(dir / "flipped", {.access = Access::map});
            ASSERT_TRUE(!image || !(*image)->verify().empty()) << describe(type) << " byte " << i;
            ASSERT_NE(error_of_stream(dir / "flipped"), "") << describe(type) << " byte " << i;
        }
    }
}

// Frames that unpack to something else, or not at all, under correct checksums.
TEST(Packed, ForgedFramesAreRefused)
{
    Scratch dir;
    const std::vector<uint8_t> bytes = packed_image(dir);
    for (RecordType type : {RecordType::segment, RecordType::index_part}) {
        const bool segment = type == RecordType::segment;
        const size_t fixed = segment ? SegmentHead::kFixed : IndexPart::kFixed;
        const size_t size_at = kPrefixSize + fixed - 4;
        std::mt19937_64 random(11);
        for (int i = 0; i < 400; i++) {
            Forger f(bytes);
            const size_t at = f.find(type);
            const auto size = f.get<uint32_t>(at + size_at);
            const size_t byte = at + kPrefixSize + fixed + random() % size;
            const auto was = f.get<uint8_t>(byte);
            f.put(byte, uint8_t(was ^ (1 + random() % 255)));
            f.sign_record(at);
            f.sign_above();
            f.save(dir / "forged");
            // The value of a frame's spare bits does not matter.
            auto image = Image::open(dir / "forged");
            if (image && (*image)->verify().empty()) {
                EXPECT_EQ(to_model(**image), apart(140, true)) << byte - at;
            }
        }
        for (uint32_t number : {0u, 1u, 8u, 23u, 4096u, 0x10000u, 0x7fffffffu, 0xffffffffu}) {
            Forger f(bytes);
            const size_t at = f.find(type);
            f.put(at + size_at, number);
            f.sign_record(at);
            f.sign_above();
            f.expect_refused(dir, describe(type) + " with a frame of " + std::to_string(number));
        }
        // The length of the tables depends on the number of entries.
        for (size_t count_at : {size_t(segment ? 16 : 8), size_t(segment ? 20 : 16)})
            for (uint32_t number : {0u, 9u, 100u, 0xffffffu, 0xffffffffu}) {
                Forger f(bytes);
                const size_t at = f.find(type);
                f.put(at + kPrefixSize + count_at, number);
                f.sign_record(at);
                f.sign_above();
                f.expect_refused(dir, describe(type) + " with entries " + std::to_string(number));
            }
        // An image of the previous version has nothing packed.
        Forger f(bytes);
        const size_t at = f.find(type);
        f.put(at + 4, uint16_t(segment ? kWideSegmentVersion : 1));
        f.sign_record(at);
        f.sign_above();
        f.expect_refused(dir, describe(type) + " of an older version");
    }
}

} // namespace
} // namespace cryo::image
