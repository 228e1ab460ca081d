// SPDX-License-Identifier: Apache-2.0
//
// Pages that others put into the image's file: the image is as good as any other.
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "sample.hpp"

namespace cryo::image {
namespace {

using PageRun = ImageWriter::PageRun;

constexpr uint32_t object = 1000; // in no random model

Result<std::unique_ptr<ImageWriter>> writer_of(const std::string &path, uint64_t placed,
                                               const WriterOptions &options = {})
{
    auto sink = FileSink::create(path, {.direct = false, .placed = placed});
    if (!sink)
        return sink.error();
    return ImageWriter::create(std::move(*sink), options);
}

// Random pages with holes between the runs.
Model pages_of(uint64_t seed, size_t runs)
{
    std::mt19937_64 random(seed);
    Model model;
    uint64_t page = 5;
    for (size_t i = 0; i < runs; i++, page += 1 + random() % 3)
        for (uint64_t left = 1 + random() % 40; left > 0; left--)
            model.pages[{object, page++}] = random_page(random);
    return model;
}

// Adds pages until the writer can place, and places the rest, segment by segment.
void place(ImageWriter &writer, const Model &model)
{
    auto at = model.pages.begin();
    size_t left = model.pages.size();
    const auto take = [&](uint64_t pages) {
        for (; pages > 0 && left > 0; pages--, left--, ++at)
            ASSERT_TRUE(writer.add_pages(object, at->first.second, at->second));
    };
    while (left > 0) {
        for (uint64_t missing; left > 0 && (missing = writer.before_placing()) > 0;)
            take(missing);
        const uint64_t blocks = std::min<uint64_t>(left, writer.placed_most());
        std::vector<PageRun> runs;
        std::vector<uint8_t> bytes;
        auto next = at;
        for (uint64_t i = 0; i < blocks - blocks % writer.package_blocks(); i++, ++next) {
            if (runs.empty() || runs.back().page + runs.back().count != next->first.second)
                runs.push_back({next->first.second, 0});
            runs.back().count++;
            bytes.insert(bytes.end(), next->second.begin(), next->second.end());
        }
        if (bytes.empty())
            return take(left);
        auto offset = writer.place_pages(object, runs);
        ASSERT_TRUE(offset) << offset.error().text();
        EXPECT_EQ(*offset % kPageSize, 0U);
        ASSERT_EQ(pwrite(writer.place()->fd(), bytes.data(), bytes.size(), off_t(*offset)),
                  ssize_t(bytes.size()));
        left -= bytes.size() / kPageSize;
        at = next;
    }
}

TEST(Placing, IsReadAsWhatIsWritten)
{
    Scratch dir;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        SCOPED_TRACE(seed);
        for (uint32_t q : {4U, 64U}) {
            SCOPED_TRACE(q);
            Model model = pages_of(seed, seed == 8 ? 600 : 20 * seed);
            // With a small index part, parts of the index lie between the segments.
            auto writer = writer_of(
                dir / "image", 1, {.package_blocks = q, .index_part = seed % 2 ? 8192U : 262144U});
            ASSERT_TRUE(writer) << writer.error().text();
            const Model before = Model::random(seed, seed * 20);
            feed_model(**writer, before);
            place(**writer, model);
            if (seed % 3 == 0) {
                ASSERT_TRUE((*writer)->check_placed());
            }
            std::mt19937_64 random(seed);
            const PageBytes last = random_page(random);
            ASSERT_TRUE((*writer)->add_pages(object, 1, last));
            model.pages[{object, 1}] = last;
            auto done = (*writer)->commit();
            ASSERT_TRUE(done) << done.error().text();
            model.records = before.records;
            model.pages.insert(before.pages.begin(), before.pages.end());
            expect_sound(dir / "image", model);
            ASSERT_EQ(unlink((dir / "image").c_str()), 0);
        }
    }
}

// Pages that were added in between lie between the placed ones.
TEST(Placing, TakesAndPlacesByTurns)
{
    Scratch dir;
    auto writer = writer_of(dir / "image", 1);
    ASSERT_TRUE(writer);
    Model model = pages_of(3, 60);
    const auto end = std::prev(model.pages.end(), 100);
    const Model rest = {.records = {}, .pages = {end, model.pages.end()}};
    const Model first = {.records = {}, .pages = {model.pages.begin(), end}};
    place(**writer, first);
    for (uint64_t i = 0; (*writer)->before_placing() != 0 || i < 64; i++) {
        PageBytes page = {};
        page[i] = 1;
        model.pages[{object, i + 100'000}] = page;
        ASSERT_TRUE((*writer)->add_pages(object, i + 100'000, page));
    }
    place(**writer, rest);
    ASSERT_TRUE((*writer)->commit());
    expect_sound(dir / "image", model);
}

TEST(Placing, PagesOfZerosNeedNoRoom)
{
    const std::string path = "/dev/shm/cryo-placing." + std::to_string(getpid());
    Model model;
    for (uint64_t i = 0; i < 2048; i++)
        model.pages[{object, i}] = {};
    model.pages[{object, 100}][7] = 1;
    // More space than needed is reserved, and given back.
    auto writer = writer_of(path, 64 << 20);
    ASSERT_TRUE(writer) << writer.error().text();
    ASSERT_NE((*writer)->place(), nullptr);
    place(**writer, model);
    ASSERT_TRUE((*writer)->commit());
    struct stat st; // stat comes first, since mapping fills the holes
    ASSERT_EQ(stat(path.c_str(), &st), 0);
    expect_sound(path, model);
    EXPECT_EQ(unlink(path.c_str()), 0);
    EXPECT_GT(st.st_size, 8 << 20);
    EXPECT_LT(st.st_blocks * 512, 1 << 20);
}

TEST(Placing, WhatIsNotThereIsNoticed)
{
    Scratch dir;
    auto writer = writer_of(dir / "image", 1);
    ASSERT_TRUE(writer);
    const PageRun run = {0, 64};
    ASSERT_TRUE((*writer)->place_pages(object, {&run, 1}));
    auto done = (*writer)->commit();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ENODATA);
    EXPECT_FALSE(std::filesystem::exists(dir / "image"));
}

TEST(Placing, OnlyWholePackagesBehindWholeOnes)
{
    Scratch dir;
    auto writer = writer_of(dir / "image", 1);
    ASSERT_TRUE(writer);
    for (const PageRun run :
         {PageRun{0, 63}, PageRun{0, 0}, PageRun{0, 1088}, PageRun{kMaxPage, 64}})
        EXPECT_FALSE((*writer)->place_pages(object, {&run, 1}));
    const std::vector<PageRun> many(ImageWriter::placed_runs + 1, {0, 0});
    EXPECT_FALSE((*writer)->place_pages(object, many));
    PageBytes page;
    page.fill(1);
    ASSERT_TRUE((*writer)->add_pages(object, 0, page));
    const PageRun run = {1, 64};
    EXPECT_FALSE((*writer)->place_pages(object, {&run, 1}));
}

// Placing pages uses the page cache, everything before bypasses it: an image of several processes
// is written as usual.
TEST(Placing, ThePageCacheIsBypassedUntilThen)
{
    Scratch dir;
    const auto is_direct = [](int fd) { return (fcntl(fd, F_GETFL) & O_DIRECT) != 0; };
    const Fd probe(open(dir.path().c_str(), O_TMPFILE | O_RDWR | O_DIRECT, 0600));
    const bool can_be = bool(probe);
    for (const bool placed : {false, true}) {
        SCOPED_TRACE(placed);
        auto sink = FileSink::create(dir / "image", {.existing = Existing::replace, .placed = 1});
        ASSERT_TRUE(sink);
        auto made = ImageWriter::create(std::move(*sink));
        ASSERT_TRUE(made);
        ImageWriter &writer = **made;
        ASSERT_NE(writer.place(), nullptr);
        const Fd file(dup(writer.place()->fd()));
        Model model = pages_of(7, 40);
        if (placed)
            place(writer, model);
        else
            feed_model(writer, model);
        EXPECT_EQ(is_direct(file.get()), can_be && !placed);
        ASSERT_TRUE(writer.commit());
        expect_sound(dir / "image", model);
    }
}

TEST(Placing, NotEverywhere)
{
    Scratch dir;
    auto packed = writer_of(dir / "image", 1, {.packing = Packing::automatic});
    ASSERT_TRUE(packed);
    EXPECT_EQ((*packed)->place(), nullptr);
    auto unasked = writer_of(dir / "image", 0);
    ASSERT_TRUE(unasked);
    EXPECT_EQ((*unasked)->place(), nullptr);
    auto sink = FileSink::create(dir / "image", {.sync = false, .placed = 1});
    ASSERT_TRUE(sink);
    struct statfs system;
    ASSERT_EQ(statfs(dir.path().c_str(), &system), 0);
    EXPECT_EQ((*sink)->placeable() != nullptr, system.f_type == TMPFS_MAGIC);
    // If space is short or may be limited, zero pages are found first instead.
    const std::string path = "/dev/shm/cryo-placing." + std::to_string(getpid());
    auto large = writer_of(path, uint64_t(1) << 50);
    ASSERT_TRUE(large);
    EXPECT_EQ((*large)->place(), nullptr);
    const rlimit before = [] {
        rlimit now;
        getrlimit(RLIMIT_FSIZE, &now);
        return now;
    }();
    const rlimit small = {1 << 20, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    auto limited = writer_of(path, 2 << 20);
    setrlimit(RLIMIT_FSIZE, &before);
    ASSERT_TRUE(limited);
    EXPECT_EQ((*limited)->place(), nullptr);
}

} // namespace
} // namespace cryo::image
