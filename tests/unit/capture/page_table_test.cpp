// SPDX-License-Identifier: Apache-2.0
//
// The table of an image's pages is assembled along its chain: holes, zeros, pages that a base has,
// also elsewhere and more than once, in images with and without digests; and so is the part that
// the next image leaves to its base.
#include "capture/memory/page_table.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "capture/memory/objects.hpp"
#include "capture/memory/page_delta.hpp"
#include "image/little_endian.hpp"
#include "image/records.hpp"
#include "image/sink.hpp"
#include "image/writer.hpp"

#include "../scratch.hpp"

using namespace cryo::capture;
using namespace cryo::image;

namespace {

constexpr uint64_t most_pages = 400;
// Contents of the pages that exist, by page; 0: zeros.
using Contents = std::map<uint64_t, uint64_t>;

std::vector<uint8_t> page_of(uint64_t contents)
{
    std::vector<uint8_t> page(kPageSize);
    memcpy(page.data(), &contents, sizeof(contents));
    return page;
}

class PageTables : public testing::Test
{
  protected:
    std::string path(size_t number) const { return scratch_ / std::to_string(number); }

    std::unique_ptr<Image> open(size_t number)
    {
        auto image = Image::open(path(number), {.find_base = [this](const Digest &id) {
                                     return cryo::Result<std::shared_ptr<Image>>(
                                         open(numbers_.at(id.hex())));
                                 }});
        EXPECT_TRUE(image) << image.error().text();
        return std::move(*image);
    }

    // Adds the next image of the chain.
    void add(bool digests)
    {
        auto sink = FileSink::create(path(chain_.size()), {.sync = false});
        WriterOptions options;
        options.packing = Packing::raw;
        if (!chain_.empty())
            options.base = last_;
        auto writer = ImageWriter::create(std::move(*sink), options);
        Contents now;
        std::vector<uint8_t> stored;
        uint64_t count = 0;
        Object memory;
        memory.id = memory_object;
        memory.kind = ObjectKind::address_space;
        ASSERT_TRUE((*writer)->add(memory));
        for (uint64_t page = 0; page < most_pages; page++) {
            const uint64_t what = random_() % 10;
            if (what == 0) // no such page
                continue;
            if (what == 1) {
                ASSERT_TRUE((*writer)->add_zero(memory_object, page, 1));
                now[page] = 0;
                continue;
            }
            // Mostly the same page, sometimes any.
            const uint64_t source = what == 2 ? random_() % most_pages : page;
            if (what < 9 && !chain_.empty() && chain_.back().contains(source)) {
                ASSERT_TRUE((*writer)->add_base(memory_object, page, 1, source));
                now[page] = chain_.back()[source];
                continue;
            }
            now[page] = random_() | 1;
            const std::vector<uint8_t> bytes = page_of(now[page]);
            ASSERT_TRUE((*writer)->add_pages(memory_object, page, bytes));
            stored.resize(stored.size() + 24);
            store_le<uint64_t>(stored.data() + count * 24, page);
            const auto digest = digest_of_page(bytes).bytes();
            std::copy(digest.begin(), digest.end(), stored.begin() + long(count * 24 + 8));
            count++;
        }
        if (digests) {
            Object about;
            about.id = memory_object + 1;
            about.kind = ObjectKind::signature;
            about.size = stored.size();
            stored.resize((stored.size() + kPageSize - 1) / kPageSize * kPageSize);
            PageDigests record;
            record.object = about.id;
            record.of = memory_object;
            record.count = count;
            ASSERT_TRUE((*writer)->add(about));
            ASSERT_TRUE((*writer)->add_pages(about.id, 0, stored));
            ASSERT_TRUE((*writer)->add(record));
        }
        auto done = (*writer)->commit();
        ASSERT_TRUE(done);
        last_ = {done->id, done->checksum};
        numbers_[done->id.hex()] = chain_.size();
        chain_.push_back(std::move(now));
    }

    void check(size_t number)
    {
        auto table = PageTable::of(*open(number));
        ASSERT_TRUE(table) << table.error().text();
        uint64_t there = 0;
        for (uint64_t page = 0; page < most_pages; page++) {
            const auto expected = chain_[number].find(page);
            const Digest *found = table->find(page);
            if (expected == chain_[number].end() || expected->second == 0) {
                // Zero pages have no entry, even if a base stores them explicitly.
                EXPECT_EQ(found, nullptr) << number << " " << page;
                continue;
            }
            there++;
            ASSERT_NE(found, nullptr) << number << " " << page;
            EXPECT_EQ(*found, digest_of_page(page_of(expected->second))) << number << " " << page;
        }
        EXPECT_EQ(table->size(), there);
    }

    std::mt19937_64 random_{6};
    const cryo::Scratch scratch_;
    std::vector<Contents> chain_;
    std::map<std::string, size_t> numbers_; // by id
    BaseImage last_;
};

} // namespace

TEST_F(PageTables, AlongAChain)
{
    for (size_t number = 0; number < 12; number++) {
        ASSERT_NO_FATAL_FAILURE(add(number % 4 != 2));
        ASSERT_NO_FATAL_FAILURE(check(number));
    }
}

// Comparing runs must give what comparing pages gives: which need no read, and the counts.
TEST_F(PageTables, WhatIsKnownToBeInTheBase)
{
    for (size_t number = 0; number < 4; number++)
        ASSERT_NO_FATAL_FAILURE(add(true));
    const auto table = [&](size_t number) {
        auto made = PageTable::of(*open(number));
        EXPECT_TRUE(made);
        return std::make_shared<const PageTable>(std::move(*made));
    };
    struct Case {
        size_t base, previous;
        bool since_base;
    };
    for (const auto &[base_at, previous_at, since_base] :
         {Case{3, 3, true}, Case{1, 3, true}, Case{1, 3, false}}) {
        DeltaPlan::Base base;
        base.image = last_;
        base.pages = table(base_at);
        base.previous_pages = previous_at == base_at ? base.pages : table(previous_at);
        base.left_by_base = base.pages->common_with(*base.pages);
        base.left_by_previous = base.pages->common_with(*base.previous_pages);
        const auto has = [&](size_t image, uint64_t page) {
            const auto found = chain_[image].find(page);
            return found == chain_[image].end() ? 0 : found->second;
        };
        std::vector<bool> known(most_pages);
        Unchanged unchanged;
        unchanged.since = since_base ? base.pages : base.previous_pages;
        for (uint64_t page = 0; page < most_pages;) {
            const uint64_t end = std::min(page + 1 + random_() % 12, most_pages);
            unchanged.runs.push_back({page * kPageSize, end * kPageSize});
            for (; page < end; page++) {
                const uint64_t then = has(since_base ? base_at : previous_at, page);
                known[page] = then != 0 && then == has(base_at, page);
            }
            page += 1 + random_() % 3;
        }
        PageDelta delta(&base);
        delta.use(unchanged);
        for (int i = 0; i < 3000; i++) { // also going backwards
            const uint64_t page = random_() % most_pages, most = 1 + random_() % 20;
            uint64_t is = 0, is_not = 0;
            while (is < most && page + is < most_pages && known[page + is])
                is++;
            while (is_not < most && (page + is_not >= most_pages || !known[page + is_not]))
                is_not++;
            ASSERT_EQ(delta.known(page, most), is) << page << " " << most;
            ASSERT_EQ(delta.unknown(page, most), is_not) << page << " " << most;
        }
        auto sink = FileSink::create(path(100), {.sync = false});
        auto writer = ImageWriter::create(std::move(*sink), {.base = last_});
        uint64_t left = 0, as_previously = 0;
        for (uint64_t page = 0; page < most_pages;) {
            const uint64_t count = delta.known(page, 7);
            for (uint64_t i = page; i < page + count; i++)
                as_previously += has(previous_at, i) == has(base_at, i) ? 1 : 0;
            if (count > 0) {
                ASSERT_TRUE(delta.leave(**writer, page, count));
            }
            left += count;
            page += count + delta.unknown(page + count, 7);
        }
        EXPECT_GT(left, 20U);
        EXPECT_FALSE(delta.leave(**writer, most_pages, 1));
        EXPECT_EQ(delta.left(), left);
        ASSERT_TRUE(delta.finish(**writer, memory_object + 1));
        ASSERT_TRUE((*writer)->commit());
        PageDigests about;
        const auto image = open(100);
        ASSERT_TRUE(image->for_each<PageDigests>([&](const PageDigests &found) { about = found; }));
        EXPECT_EQ(about.pages, left);
        EXPECT_EQ(about.changed_to_base, 0U);
        EXPECT_EQ(about.changed_to_previous, left - as_previously);
        std::filesystem::remove(path(100));
    }
}
