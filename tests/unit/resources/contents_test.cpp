// SPDX-License-Identifier: Apache-2.0
// The contents of a file come back out of an image, and a memory file is made as it was.
#include "own_files.hpp"

#include "resources/contents.hpp"
#include "resources/memfd.hpp"

#include "../scratch.hpp"

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

constexpr uint32_t object = 7;

class Contents : public testing::Test
{
  protected:
    void SetUp() override
    {
        file_.id = 1;
        file_.path = "it";
        file_.object = object;
    }
    // Saves the file, and opens the image that has it.
    void save(int fd)
    {
        struct stat status;
        ASSERT_EQ(fstat(fd, &status), 0);
        file_.size = static_cast<uint64_t>(status.st_size);
        const std::string path = directory_ / "image";
        auto sink = image::FileSink::create(path);
        ASSERT_TRUE(sink) << sink.error().text();
        auto writer = image::ImageWriter::create(std::move(*sink));
        ASSERT_TRUE(writer) << writer.error().text();
        image::Object record;
        record.id = object;
        record.kind = image::ObjectKind::file_contents;
        record.size = file_.size;
        ASSERT_TRUE((*writer)->add(record));
        std::vector<uint8_t> buffer(contents_part);
        const Result<void> saved = save_contents(**writer, file_, fd, buffer, [this] { parts_++; });
        ASSERT_TRUE(saved) << saved.error().text();
        auto done = (*writer)->commit();
        ASSERT_TRUE(done) << done.error().text();
        auto opened = image::Image::open(path);
        ASSERT_TRUE(opened) << opened.error().text();
        image_ = std::move(*opened);
    }

    const Scratch directory_;
    image::File file_;
    int parts_ = 0;
    std::unique_ptr<image::Image> image_;
};

Fd memory()
{
    return Fd(memfd_create("contents", MFD_CLOEXEC));
}

TEST_F(Contents, ComeBackWithTheirHole)
{
    constexpr off_t far = (3 << 20) + 100;
    const Fd source = memory();
    ASSERT_EQ(pwrite(source.get(), "head", 4, 0), 4);
    ASSERT_EQ(pwrite(source.get(), "tail", 4, far), 4);
    ASSERT_NO_FATAL_FAILURE(save(source.get()));
    EXPECT_GE(parts_, 2);

    const Fd again = memory();
    const Result<void> filled = fill(*image_, file_, again.get());
    ASSERT_TRUE(filled) << filled.error().text();
    struct stat status;
    ASSERT_EQ(fstat(again.get(), &status), 0);
    EXPECT_EQ(status.st_size, far + 4);
    char text[4];
    ASSERT_EQ(pread(again.get(), text, 4, 0), 4);
    EXPECT_EQ(std::string(text, 4), "head");
    ASSERT_EQ(pread(again.get(), text, 4, far), 4);
    EXPECT_EQ(std::string(text, 4), "tail");
    ASSERT_EQ(pread(again.get(), text, 4, 1 << 20), 4);
    EXPECT_EQ(std::string(text, 4), std::string(4, 0));
}

TEST_F(Contents, AreToldFromOthers)
{
    const Fd source = memory();
    ASSERT_EQ(pwrite(source.get(), "contents", 8, 5000), 8);
    ASSERT_NO_FATAL_FAILURE(save(source.get()));
    Result<bool> same = has_contents(*image_, file_, source.get());
    ASSERT_TRUE(same);
    EXPECT_TRUE(*same);
    ASSERT_EQ(pwrite(source.get(), "C", 1, 5000), 1);
    same = has_contents(*image_, file_, source.get());
    ASSERT_TRUE(same);
    EXPECT_FALSE(*same);
    ASSERT_EQ(ftruncate(source.get(), 100), 0);
    same = has_contents(*image_, file_, source.get());
    ASSERT_TRUE(same);
    EXPECT_FALSE(*same);
}

TEST(MemoryFile, HasItsNameAndItsSeals)
{
    constexpr unsigned seals = F_SEAL_GROW | F_SEAL_SHRINK;
    for (const bool may_seal : {false, true}) {
        Fd fd(memfd_create("sealed", MFD_CLOEXEC | (may_seal ? MFD_ALLOW_SEALING : 0U)));
        ASSERT_TRUE(fd);
        if (may_seal) {
            ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, seals), 0);
        }
        const Seen seen = see(std::move(fd));
        image::File file;
        file.kind = seen.kind;
        file.link = "sealed";
        ASSERT_TRUE(save_memory_file(seen, file));
        Result<Fd> made = make_memory_file(file);
        ASSERT_TRUE(made);
        EXPECT_EQ(fcntl(made->get(), F_GET_SEALS) & static_cast<int>(seals), 0);
        ASSERT_TRUE(seal_memory_file(made->get(), file.seals, file.link));
        EXPECT_EQ(fcntl(made->get(), F_GET_SEALS), static_cast<int>(file.seals));
        EXPECT_EQ((file.seals & seals) == seals, may_seal);
        EXPECT_EQ(see(std::move(*made)).link, seen.link);
    }
}

} // namespace

} // namespace cryo::resources
