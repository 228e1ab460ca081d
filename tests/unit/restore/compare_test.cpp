// SPDX-License-Identifier: Apache-2.0
// A child plays a restored process, and an image describes its expected contents.
#include "restore/compare.hpp"

#include "image/sink.hpp"
#include "image/writer.hpp"
#include "look/sharing.hpp"

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
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
    std::unique_ptr<image::Image> image_;

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

class CompareSharing : public CompareMemory
{
  protected:
    // Of a child made with the flags of which the image says that they were these.
    std::string said_of(uint64_t made, uint32_t saved)
    {
        const long child = syscall(SYS_clone, made | SIGCHLD, 0, 0, 0, 0);
        if (child == 0) {
            for (;;)
                pause();
        }
        image::Process &process = saved_.process;
        process.pid = static_cast<uint32_t>(child);
        process.uid = process.euid = process.suid = process.fsuid = getuid();
        process.gid = process.egid = process.sgid = process.fsgid = getgid();
        process.cap_inheritable = process.cap_permitted = ~uint64_t(0);
        process.cap_effective = process.cap_ambient = ~uint64_t(0);
        process.umask = umask(0);
        umask(process.umask);
        process.shares = saved;
        Newborn kin;
        kin.parent = 0;
        const RestartPlan plan;
        const Result<void> same =
            compare_process({*image_, *image_, saved_, plan, static_cast<pid_t>(child), kin});
        kill(static_cast<pid_t>(child), SIGKILL);
        waitpid(static_cast<pid_t>(child), nullptr, 0);
        return same ? std::string() : same.error().text();
    }
};

TEST_F(CompareSharing, WithTheParent)
{
    if (!capture::are_sharers(CLONE_FS, getpid(), getpid()))
        GTEST_SKIP() << "kcmp(2) may not be called here";
    constexpr const char *what = "shares its working directory, root and umask with its parent";
    constexpr const char *not_so = "does not share its working directory";
    EXPECT_NE(said_of(CLONE_FS, 0).find(what), std::string::npos);
    EXPECT_NE(said_of(0, CLONE_FS).find(not_so), std::string::npos);
    for (const uint32_t both : {0, CLONE_FS, CLONE_FS | CLONE_SYSVSEM}) {
        const std::string said = said_of(both, both);
        EXPECT_EQ(said.find("its working directory, root"), std::string::npos) << said;
    }
    EXPECT_NE(said_of(CLONE_FS, CLONE_FS | CLONE_SYSVSEM).find("does not share"),
              std::string::npos);
}

} // namespace

} // namespace cryo::restore
