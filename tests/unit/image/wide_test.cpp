// SPDX-License-Identifier: Apache-2.0
//
// Large memory that is stored unpacked lies in few pieces of the file (wide segments), if
// written output can be rewritten; by index, by verify() and as a stream it reads like any
// other.
#include <cstring>
#include <fcntl.h>
#include <functional>

#include "image/snapshot.hpp"
#include "sample.hpp"

namespace cryo::image {
namespace {

constexpr uint32_t object = 1000; // in no random model
constexpr uint64_t first = 77;
constexpr uint64_t MiB = (1 << 20) / kPageSize; // in pages

Model dense(uint64_t pages)
{
    std::mt19937_64 random(pages);
    Model model;
    const PageBytes some = random_page(random);
    for (uint64_t i = 0; i < pages; i++) {
        PageBytes page = some;
        std::memcpy(page.data(), &i, sizeof i);
        page[kPageSize - 1] = 1; // so that no page is zero
        model.pages[{object, first + i}] = page;
    }
    return model;
}

void add_dense(ImageWriter &writer, const Model &model, const std::function<bool(uint64_t)> &among)
{
    uint64_t i = 0;
    for (const auto &[key, page] : model.pages) {
        if (key.first != object)
            continue;
        if (among(i++)) {
            ASSERT_TRUE(writer.add(Rlimit{.resource = uint32_t(i)}));
        }
        ASSERT_TRUE(writer.add_pages(key.first, key.second, page));
    }
}

// The number of mappings that the dense pages need.
size_t pieces(Image &image, uint64_t pages)
{
    size_t count = 0;
    for (uint64_t at = 0; at < pages; count++) {
        auto piece = image.mappable(object, first + at);
        EXPECT_TRUE(piece && piece->count > 0) << at;
        if (!piece || piece->count == 0)
            break;
        at += piece->count;
    }
    return count;
}

Model without_records(Model model)
{
    model.records.clear();
    return model;
}

std::unique_ptr<ImageWriter> writer_of(const std::string &path, const WriterOptions &options)
{
    auto sink = FileSink::create(path, {.existing = Existing::replace, .sync = false});
    auto writer = ImageWriter::create(std::move(*sink), options);
    EXPECT_TRUE(writer) << writer.error().text();
    return std::move(*writer);
}

TEST(Wide, MuchMemoryIsInFewPieces)
{
    Scratch dir;
    for (size_t index_part : {size_t(1), kMaxRecord / 2}) {
        const Model model = dense(138 * MiB);
        auto writer = writer_of(dir / "image", {.index_part = index_part});
        add_dense(*writer, model, [](uint64_t) { return false; });
        ASSERT_TRUE(writer->commit());
        expect_sound(dir / "image", model);
        auto image = Image::open(dir / "image");
        // 64, 64, 8 and a rest that is too small for one.
        EXPECT_LE(pieces(**image, 138 * MiB), 4U) << index_part;
    }
}

// Records, zero pages, runs that are too small, an incomplete package at the end: each ends a
// segment, or has its own.
TEST(Wide, WhatComesBetween)
{
    Scratch dir;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        SCOPED_TRACE(seed);
        std::mt19937_64 random(seed);
        Model model = dense((20 + seed) * MiB + 3);
        for (uint64_t zeros = seed * 3; zeros > 0; zeros--)
            model.pages[{object, first + random() % (20 * MiB)}] = {};
        if (seed == 6) // many extents
            for (uint64_t page = 10 * MiB; page < 14 * MiB; page += 3)
                model.pages[{object, first + page}] = {};
        const Model before = without_records(Model::random(seed, 300));
        auto writer =
            writer_of(dir / "image", {.package_blocks = seed % 2 ? 64U : 16U,
                                      .threads = unsigned(seed % 3),
                                      .index_part = seed % 2 ? size_t(8192) : kMaxRecord / 2});
        feed_model(*writer, before, seed);
        add_dense(*writer, model, [&](uint64_t i) { return seed > 2 && i % (7 * MiB) == 5; });
        ASSERT_TRUE(writer->commit());
        model.pages.insert(before.pages.begin(), before.pages.end());
        model.in_base = before.in_base;
        for (Access access : {Access::pread, Access::map}) {
            auto image = Image::open(dir / "image", {.access = access});
            ASSERT_TRUE(image) << image.error().text();
            EXPECT_TRUE((*image)->verify().empty());
            EXPECT_EQ(without_records(to_model(**image)), model);
        }
        EXPECT_EQ(without_records(read_as_stream(dir / "image")), model);
    }
}

TEST(Wide, MembersOfAnArchive)
{
    Scratch dir;
    const Model model = dense(40 * MiB);
    auto sink = FileSink::create(dir / "archive", {.existing = Existing::replace, .sync = false});
    ArchiveWriter archive(std::move(*sink));
    for (uint32_t pid = 1; pid <= 3; pid++) {
        auto writer = archive.begin_member({});
        ASSERT_TRUE(writer);
        add_dense(**writer, model, [](uint64_t) { return false; });
        ASSERT_TRUE(archive.end_member(**writer, {.pid = pid, .comm = "member"}));
    }
    ASSERT_TRUE(archive.commit({.scope = Scope::tree, .root_pid = 1}));
    auto snapshot = Snapshot::open(dir / "archive", {});
    ASSERT_TRUE(snapshot) << snapshot.error().text();
    for (const SnapshotMember &m : (*snapshot)->members()) {
        auto image = (*snapshot)->open_member(m);
        ASSERT_TRUE(image) << image.error().text();
        EXPECT_TRUE((*image)->verify().empty());
        EXPECT_EQ(to_model(**image), model);
        EXPECT_LE(pieces(**image, 40 * MiB), 1U);
    }
}

// A stream cannot be rewritten: one piece per segment, and no other difference.
TEST(Wide, NotInAStream)
{
    Scratch dir;
    const Model model = dense(20 * MiB);
    auto writer = ImageWriter::create(std::make_unique<StreamSink>(
        Fd(open((dir / "image").c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)), "stream"));
    ASSERT_TRUE(writer);
    add_dense(**writer, model, [](uint64_t) { return false; });
    ASSERT_TRUE((*writer)->commit());
    expect_sound(dir / "image", model);
    auto image = Image::open(dir / "image");
    EXPECT_EQ(pieces(**image, 20 * MiB), 5U);
}

// The head is written last: damage to it is found.
TEST(Wide, DamagedHead)
{
    Scratch dir;
    auto writer = writer_of(dir / "image", {});
    const Model model = dense(8 * MiB);
    add_dense(*writer, model, [](uint64_t) { return false; });
    ASSERT_TRUE(writer->commit());
    const std::vector<uint8_t> bytes = slurp(dir / "image");
    for (size_t at = kHeaderSize; at < kHeaderSize + 12 * 1024; at += 509) {
        std::vector<uint8_t> changed = bytes;
        changed[at] ^= 1;
        spew(dir / "changed", changed);
        EXPECT_NE(error_of_stream(dir / "changed"), "") << at;
        auto image = Image::open(dir / "changed");
        if (image) {
            EXPECT_FALSE((*image)->verify().empty()) << at;
        }
    }
}

} // namespace
} // namespace cryo::image
