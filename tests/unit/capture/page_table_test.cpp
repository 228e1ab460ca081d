// SPDX-License-Identifier: Apache-2.0
//
// What the pages of an image are is put together along its chain: holes, zeros, pages that a base
// has, also elsewhere and more than once, in images with digests and without.
#include "capture/page_table.hpp"

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <random>

#include <gtest/gtest.h>

#include "capture/objects.hpp"
#include "image/little_endian.hpp"
#include "image/records.hpp"
#include "image/sink.hpp"
#include "image/writer.hpp"

using namespace cryo::capture;
using namespace cryo::image;

namespace {

constexpr uint64_t most_pages = 400;
// Contents of pages that are there, by page; 0: zeros.
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
    void SetUp() override
    {
        char name[] = "/tmp/cryo-tables.XXXXXX";
        ASSERT_NE(mkdtemp(name), nullptr);
        scratch_ = name;
    }
    void TearDown() override { std::filesystem::remove_all(scratch_); }

    std::string path(size_t number) const { return scratch_ + "/" + std::to_string(number); }

    std::unique_ptr<Image> open(size_t number)
    {
        auto image = Image::open(path(number), {.find_base = [this](const Digest &id) {
                                     return cryo::Result<std::shared_ptr<Image>>(
                                         open(numbers_.at(id.hex())));
                                 }});
        EXPECT_TRUE(image) << image.error().text();
        return std::move(*image);
    }

    // The next one of the chain.
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
            if (what == 0) // not there
                continue;
            if (what == 1) {
                ASSERT_TRUE((*writer)->add_zero(memory_object, page, 1));
                now[page] = 0;
                continue;
            }
            // Often of the same page, sometimes of any.
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
                // Zeros that a base has as such are asked for no more than any others.
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
    std::string scratch_;
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
