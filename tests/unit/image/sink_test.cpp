// SPDX-License-Identifier: Apache-2.0
//
// A file appears complete or not at all: names, modes, full disks, death at any moment, O_DIRECT.
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <thread>

#include "flagless_renames.hpp"
#include "sample.hpp"

namespace cryo::image {
namespace {

std::vector<std::string> names_in(const Scratch &dir)
{
    std::vector<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(dir.path()))
        names.push_back(entry.path().filename());
    return names;
}

std::unique_ptr<ImageWriter> writer_to(const std::string &path, FileOptions file = {},
                                       WriterOptions options = {})
{
    auto sink = FileSink::create(path, file);
    EXPECT_TRUE(sink) << sink.error().text();
    auto writer = ImageWriter::create(std::move(*sink), options);
    EXPECT_TRUE(writer) << writer.error().text();
    return std::move(*writer);
}

TEST(FileSink, NothingIsVisibleBeforeCommit)
{
    Scratch dir;
    auto writer = writer_to(dir / "image");
    ASSERT_TRUE(writer->add_pages(0, 0, std::vector<uint8_t>(9 << 20, 1)));
    for (const std::string &name : names_in(dir))
        EXPECT_NE(name, "image");
    ASSERT_TRUE(writer->commit());
    EXPECT_EQ(names_in(dir), std::vector<std::string>{"image"});
}

TEST(FileSink, AbandonedLeavesNothing)
{
    Scratch dir;
    {
        auto writer = writer_to(dir / "image");
        ASSERT_TRUE(writer->add_pages(0, 0, std::vector<uint8_t>(9 << 20, 1)));
    }
    EXPECT_TRUE(names_in(dir).empty());
}

TEST(FileSink, CommittedFileIsReadOnlyForItsOwner)
{
    Scratch dir;
    write_image(dir / "image", {});
    struct stat st;
    ASSERT_EQ(stat((dir / "image").c_str(), &st), 0);
    EXPECT_EQ(st.st_mode & 07777, 0400u);
}

TEST(FileSink, OwnersWritePermissionIsKeptIfAsked)
{
    const Scratch dir;
    const std::string path = dir / "image";
    const auto mode_after = [&](mode_t before, const FileOptions &options) {
        EXPECT_EQ(chmod(path.c_str(), before), 0);
        auto sink = FileSink::create(path, options);
        EXPECT_TRUE(sink && (*sink)->commit());
        struct stat st = {};
        EXPECT_EQ(stat(path.c_str(), &st), 0);
        return st.st_mode & 07777U;
    };
    spew(path, as_bytes("mine"));
    EXPECT_EQ(mode_after(0666, {.existing = Existing::replace, .keep_write = true}), 0600U);
    EXPECT_EQ(mode_after(0466, {.existing = Existing::replace, .keep_write = true}), 0400U);
    EXPECT_EQ(mode_after(0600, {.existing = Existing::replace}), 0400U);
}

TEST(FileSink, ExistingFileIsRefusedOrReplaced)
{
    Scratch dir;
    std::string path = dir / "image";
    spew(path, as_bytes("mine"));
    auto refused = FileSink::create(path, {.existing = Existing::refuse});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EEXIST);

    // An existing file keeps its name until the new one is complete.
    auto writer = writer_to(path, {.existing = Existing::replace});
    ASSERT_TRUE(writer->add_pages(0, 0, std::vector<uint8_t>(kPageSize, 1)));
    EXPECT_EQ(slurp(path).size(), 4u);
    ASSERT_TRUE(writer->commit());
    EXPECT_EQ(error_of_open(path, Access::pread), "");
    EXPECT_EQ(names_in(dir).size(), 1u);
}

// A file that is created while the image is written is not overwritten either.
TEST(FileSink, FileThatAppearsMeanwhileIsRefused)
{
    Scratch dir;
    std::string path = dir / "image";
    auto writer = writer_to(path);
    spew(path, as_bytes("mine"));
    auto done = writer->commit();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), EEXIST);
    writer.reset();
    EXPECT_EQ(slurp(path).size(), 4u);
    EXPECT_EQ(names_in(dir).size(), 1u);
}

TEST(FileSink, ImpossiblePlacesAreNamed)
{
    Scratch dir;
    for (const std::string &name : {dir / "absent/image", dir / "", dir / "..", std::string()}) {
        auto sink = FileSink::create(name);
        ASSERT_FALSE(sink) << name;
        EXPECT_FALSE(sink.error().text().empty());
    }
    auto sink = FileSink::create(dir / "absent/image");
    EXPECT_NE(sink.error().text().find("absent"), std::string::npos) << sink.error().text();
}

// A file size limit is like a full disk: the write fails in the middle.
TEST(FileSink, FailedWriteLeavesNothing)
{
    Scratch dir;
    pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN);
        rlimit limit{1 << 20, 1 << 20};
        setrlimit(RLIMIT_FSIZE, &limit);
        auto sink = FileSink::create(dir / "image");
        auto writer = ImageWriter::create(std::move(*sink));
        std::vector<uint8_t> pages(3 << 20, 7);
        bool failed = false;
        for (uint64_t i = 0; i < 20 && !failed; i++)
            failed = !(*writer)->add_pages(0, i * pages.size() / kPageSize, pages);
        auto done = (*writer)->commit();
        bool named = !done && done.error().code() == EFBIG &&
                     done.error().text().find(dir / "image") != std::string::npos;
        writer->reset();
        _exit(named ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_TRUE(names_in(dir).empty());
}

TEST(StreamSink, FullDeviceIsReported)
{
    Fd full(open("/dev/full", O_WRONLY | O_CLOEXEC));
    ASSERT_TRUE(full);
    auto writer = ImageWriter::create(std::make_unique<StreamSink>(std::move(full), "/dev/full"));
    ASSERT_TRUE((*writer)->add_pages(0, 0, std::vector<uint8_t>(kPageSize, 1)));
    auto done = (*writer)->commit();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), ENOSPC);
    EXPECT_NE(done.error().text().find("/dev/full"), std::string::npos);
    // The error is final.
    EXPECT_FALSE((*writer)->add_zero(0, 0, 1));
}

// A writer killed at any moment leaves either no image or a complete one, and no leftovers if the
// file system has unnamed files.
TEST(FileSink, KilledAtAnyMoment)
{
    Scratch dir;
    std::string path = dir / "image";
    Model old = Model::random(1, 50);
    write_image(path, old);
    std::vector<uint8_t> before = slurp(path);
    for (int round = 0; round < 40; round++) {
        int ready[2];
        ASSERT_EQ(pipe(ready), 0);
        pid_t child = fork();
        if (child == 0) {
            auto sink = FileSink::create(path, {.existing = Existing::replace, .sync = false});
            auto writer = ImageWriter::create(std::move(*sink));
            std::vector<uint8_t> pages(1 << 20, 3);
            for (uint64_t i = 0; i < 16; i++) {
                (void)(*writer)->add_pages(0, i * 256, pages);
                (void)!write(ready[1], "x", 1);
            }
            (void)(*writer)->commit();
            (void)!write(ready[1], "x", 1);
            pause();
        }
        // Kill it after this many of its steps.
        for (int steps = round % 18; steps > 0; steps--) {
            char c;
            ASSERT_EQ(read(ready[0], &c, 1), 1);
        }
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        close(ready[0]);
        close(ready[1]);
        std::vector<uint8_t> now = slurp(path);
        if (now != before) {
            auto image = Image::open(path);
            ASSERT_TRUE(image) << image.error().text();
            EXPECT_TRUE((*image)->verify().empty());
            EXPECT_EQ((*image)->footer().blocks, 16u * 256);
            before = now;
        }
        std::vector<std::string> names = names_in(dir);
        ASSERT_EQ(names.size(), 1u) << names[0] << " " << names.back();
    }
}

// The image is the same with and without the page cache, on a disk and on tmpfs.
TEST(FileSink, DirectAndBufferedAreTheSame)
{
    Scratch dir;
    Model model = Model::random(77, 5000);
    for (Packing packing : {Packing::raw, Packing::lz4}) {
        write_image(dir / "direct", model, {.packing = packing},
                    {.existing = Existing::replace, .direct = true});
        write_image(dir / "buffered", model, {.packing = packing},
                    {.existing = Existing::replace, .direct = false});
        EXPECT_EQ(read_by_index(dir / "direct", Access::map), model);
        EXPECT_EQ(read_by_index(dir / "buffered", Access::map), model);
    }
    std::string shm = "/dev/shm/cryo-image-test-" + std::to_string(getpid());
    write_image(shm, model, {}, {.existing = Existing::replace, .direct = true});
    EXPECT_EQ(read_by_index(shm, Access::map), model);
    std::filesystem::remove(shm);
}

TEST(StreamSink, SlowPipe)
{
    Model model = Model::random(78, 3000);
    Scratch dir;
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    fcntl(ends[0], F_SETPIPE_SZ, 4096);
    Fd in(ends[0]);
    std::vector<uint8_t> bytes;
    std::thread reader([&] { // in small pieces of odd length
        uint8_t piece[3001];
        ssize_t n;
        while ((n = read(in.get(), piece, sizeof piece)) > 0)
            bytes.insert(bytes.end(), piece, piece + n);
    });
    {
        auto writer = ImageWriter::create(std::make_unique<StreamSink>(Fd(ends[1]), "pipe"),
                                          {.packing = Packing::automatic});
        ASSERT_TRUE(writer);
        feed_model(**writer, model);
        auto done = (*writer)->commit();
        ASSERT_TRUE(done) << done.error().text();
    }
    reader.join();
    spew(dir / "image", bytes);
    EXPECT_EQ(read_by_index(dir / "image", Access::pread), model);
    EXPECT_EQ(read_as_stream(dir / "image"), model);
}

// A stream is read while it is written, through a socket.
TEST(StreamSink, Socket)
{
    Model model = Model::random(79, 3000);
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    Fd in(ends[0]);
    std::thread sender([&] {
        auto writer = ImageWriter::create(std::make_unique<StreamSink>(Fd(ends[1]), "socket"));
        feed_model(**writer, model);
        EXPECT_TRUE((*writer)->commit());
    });
    Model got = read_stream(in.get());
    sender.join();
    EXPECT_EQ(got, model);
}

// An image whose publication may be refused after it was written.
struct Published {
    Scratch dir;
    bool may_be = true;
    Publication publication{[this](const std::string &place) {
        EXPECT_TRUE(std::filesystem::exists(place));
        return may_be ? Result<void>() : Result<void>(Error(ETIME, "too late"));
    }};

    bool commit(Existing existing)
    {
        FileOptions file{.existing = existing, .backup = {.name = dir / "kept"}};
        file.publication = &publication;
        auto writer = writer_to(dir / "image", file);
        EXPECT_TRUE(writer->add_pages(0, 0, std::vector<uint8_t>(1 << 20, 1)));
        return bool(writer->commit());
    }
    void be_there() { std::ofstream(dir / "image") << "of old"; }
    std::string text() const
    {
        std::string first;
        std::getline(std::ifstream(dir / "image"), first);
        return first.substr(0, 6);
    }
};

TEST(Publication, IsAskedBefore)
{
    for (const Existing existing : {Existing::refuse, Existing::replace}) {
        Published one;
        one.may_be = false;
        EXPECT_FALSE(one.commit(existing));
        EXPECT_TRUE(names_in(one.dir).empty());
    }
}

TEST(Publication, TakenBack)
{
    for (const Existing existing : {Existing::refuse, Existing::replace}) {
        Published one;
        ASSERT_TRUE(one.commit(existing));
        EXPECT_EQ(names_in(one.dir), std::vector<std::string>{"image"});
        EXPECT_TRUE(one.publication.take_back());
        EXPECT_TRUE(names_in(one.dir).empty());
    }
}

TEST(Publication, WhatWasThereComesBack)
{
    for (const Existing existing : {Existing::replace, Existing::backup}) {
        Published one;
        one.be_there();
        ASSERT_TRUE(one.commit(existing));
        EXPECT_NE(one.text(), "of old");
        EXPECT_TRUE(one.publication.take_back());
        EXPECT_EQ(one.text(), "of old");
        EXPECT_EQ(names_in(one.dir).size(), existing == Existing::backup ? 2U : 1U);
    }
}

TEST(Publication, Kept)
{
    Published one;
    one.be_there();
    ASSERT_TRUE(one.commit(Existing::replace));
    EXPECT_TRUE(one.publication.keep());
    EXPECT_NE(one.text(), "of old");
    EXPECT_EQ(names_in(one.dir), std::vector<std::string>{"image"});
    EXPECT_TRUE(one.publication.take_back()); // too late: nothing happens
    EXPECT_EQ(names_in(one.dir), std::vector<std::string>{"image"});
}

// Another process has put a file in its place.
TEST(Publication, AnothersIsNotTakenBack)
{
    Published one;
    ASSERT_TRUE(one.commit(Existing::replace));
    std::filesystem::remove(one.dir / "image");
    one.be_there();
    EXPECT_FALSE(one.publication.take_back());
    EXPECT_EQ(one.text(), "of old");
}

TEST(Publication, WhereRenamesHaveNoFlags)
{
    const int status = where_renames_have_no_flags([] {
        for (const Existing existing : {Existing::refuse, Existing::replace}) {
            Published one;
            EXPECT_TRUE(one.commit(existing));
            EXPECT_EQ(names_in(one.dir), std::vector<std::string>{"image"});
            EXPECT_TRUE(one.publication.take_back());
            EXPECT_TRUE(names_in(one.dir).empty());
        }
        for (const Existing existing : {Existing::replace, Existing::backup}) {
            for (const bool is_kept : {false, true}) {
                Published one;
                one.be_there();
                EXPECT_TRUE(one.commit(existing));
                EXPECT_NE(one.text(), "of old");
                EXPECT_TRUE(is_kept ? one.publication.keep() : one.publication.take_back());
                EXPECT_EQ(is_kept, one.text() != "of old");
                EXPECT_EQ(names_in(one.dir).size(), existing == Existing::backup ? 2U : 1U);
            }
        }
        // A file that appears meanwhile is not replaced.
        Published late;
        FileOptions file{.existing = Existing::refuse};
        file.publication = &late.publication;
        auto writer = writer_to(late.dir / "image", file);
        late.be_there();
        auto done = writer->commit();
        EXPECT_TRUE(!done && done.error().code() == EEXIST);
        EXPECT_EQ(late.text(), "of old");
    });
    if (status == no_filter)
        GTEST_SKIP() << "no filter of system calls here";
    EXPECT_EQ(0, status);
}

TEST(StreamSink, ReaderThatGoesAwayIsAnError)
{
    signal(SIGPIPE, SIG_IGN);
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    auto writer = ImageWriter::create(std::make_unique<StreamSink>(Fd(ends[1]), "pipe"));
    close(ends[0]);
    (void)(*writer)->add_pages(0, 0, std::vector<uint8_t>(1 << 20, 1));
    auto done = (*writer)->commit();
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), EPIPE);
}

} // namespace
} // namespace cryo::image
