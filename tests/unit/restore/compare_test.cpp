// SPDX-License-Identifier: Apache-2.0
// A child plays a restored process, and an image describes its expected contents.
#include "restore/compare.hpp"

#include "image/sink.hpp"
#include "image/writer.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

constexpr uint64_t page = 4096;
constexpr uint64_t pages = 3; // written, zero, and untouched
constexpr uint32_t object = 1;

class CompareMemory : public testing::Test
{
  protected:
    void SetUp() override
    {
        void *made =
            mmap(nullptr, pages * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(made, MAP_FAILED);
        memory_ = static_cast<unsigned char *>(made);
        std::fill_n(memory_, page, 7);
        write_image();
        image::Region region;
        region.start = reinterpret_cast<uint64_t>(memory_);
        region.end = region.start + pages * page;
        region.prot = PROT_READ | PROT_WRITE;
        region.object = object;
        region.object_page = region.start / page;
        saved_.regions().push_back(region);
        saved_.memory.object = object;
    }
    void TearDown() override
    {
        munmap(memory_, pages * page);
        std::filesystem::remove(path_);
    }

    // The error for a child that does this and then waits.
    template <class F>
    std::string said(F change)
    {
        int ready[2];
        EXPECT_EQ(0, pipe(ready));
        const pid_t child = fork();
        if (child == 0) {
            change(memory_);
            if (write(ready[1], "", 1) == 1)
                pause();
            _exit(0);
        }
        char byte = 0;
        EXPECT_EQ(1, read(ready[0], &byte, 1));
        const Newborn kin;
        const RestartPlan plan;
        const Result<void> same = compare_memory({*image_, *image_, saved_, plan, child, kin});
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        close(ready[0]);
        close(ready[1]);
        EXPECT_FALSE(same); // the child has more than this
        EXPECT_EQ(ENOTRECOVERABLE, same.error().code()) << same.error().text();
        return same.error().text();
    }

    unsigned char *memory_ = nullptr;
    Saved saved_;

  private:
    void write_image()
    {
        path_ = testing::TempDir() + "compare." + std::to_string(getpid());
        auto sink = image::FileSink::create(path_, {.sync = false});
        ASSERT_TRUE(sink);
        auto writer = image::ImageWriter::create(std::move(*sink));
        ASSERT_TRUE(writer);
        image::Object about;
        about.id = object;
        about.kind = image::ObjectKind::address_space;
        ASSERT_TRUE((*writer)->add(about));
        const std::vector<uint8_t> contents(page, 7);
        const uint64_t first = reinterpret_cast<uint64_t>(memory_) / page;
        ASSERT_TRUE((*writer)->add_pages(object, first, contents));
        ASSERT_TRUE((*writer)->add_pages(object, first + 1, std::vector<uint8_t>(page, 0)));
        ASSERT_TRUE((*writer)->commit());
        auto opened = image::Image::open(path_);
        ASSERT_TRUE(opened);
        image_ = std::move(*opened);
    }

    std::string path_;
    std::unique_ptr<image::Image> image_;
};

constexpr const char *all_equal = "where nothing was";

TEST_F(CompareMemory, AsItWas)
{
    EXPECT_NE(std::string::npos, said([](unsigned char *) {}).find(all_equal));
}

TEST_F(CompareMemory, ReadingIsNoChange)
{
    const auto look = [](unsigned char *memory) {
        volatile unsigned char seen = memory[2 * page];
        static_cast<void>(seen);
    };
    EXPECT_NE(std::string::npos, said(look).find(all_equal));
}

TEST_F(CompareMemory, EachByteCounts)
{
    for (const uint64_t at : {uint64_t(0), page - 1, page, 2 * page + 5}) {
        const std::string text = said([at](unsigned char *memory) { memory[at] = 9; });
        EXPECT_NE(std::string::npos, text.find(" is 09, and ")) << text;
    }
}

TEST_F(CompareMemory, ProtectionAndPlaceCount)
{
    EXPECT_NE(std::string::npos, said([](unsigned char *memory) {
                                     mprotect(memory + page, page, PROT_READ);
                                 }).find("its protection is 1, and 3"));
    EXPECT_NE(std::string::npos, said([](unsigned char *memory) {
                                     munmap(memory + page, page);
                                 }).find("nothing is mapped at"));
}

TEST(CheckRoom, MoreThanThereIs)
{
    EXPECT_TRUE(check_room(page));
    const Result<void> refused = check_room(uint64_t(1) << 60);
    ASSERT_FALSE(refused);
    EXPECT_EQ(ENOMEM, refused.error().code());
    EXPECT_NE(std::string::npos, refused.error().text().find("do without --rehearse"));
}

} // namespace

} // namespace cryo::restore
