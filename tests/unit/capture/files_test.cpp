// SPDX-License-Identifier: Apache-2.0
//
// What is mapped by a name that was removed: which FILE that is; and contents found by a name.
#include "base/passing.hpp"
#include "capture/files/files.hpp"
#include "capture/session/session.hpp"
#include "look/identity.hpp"

#include "../scratch.hpp"

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>

namespace cryo::capture {
namespace {

namespace fs = std::filesystem;

struct Table {
    Strings strings;
    Objects objects;
    FileOptions options;
    Files files{strings, objects, options};

    const image::File &of(uint32_t id) { return files.files().at(id - 1); }
};

TEST(Files, WhatIsMappedByARemovedNameHasItsOtherOne)
{
    const Scratch directory;
    const std::string removed = directory / "removed";
    const std::string left = directory / "left";
    struct stat status;
    {
        const Fd made(open(removed.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
        ASSERT_TRUE(made);
        ASSERT_EQ(0, fstat(made.get(), &status));
    }
    ASSERT_EQ(0, link(removed.c_str(), left.c_str()));
    ASSERT_EQ(0, unlink(removed.c_str()));
    Table table;
    const uint32_t file = table.files.mapped(removed, status.st_dev, status.st_ino);
    EXPECT_EQ(left, table.of(file).path);
    EXPECT_EQ(image::kFileRenamed, table.of(file).flags);
    EXPECT_EQ(file, table.files.mapped(left, status.st_dev, status.st_ino));
    const uint32_t nameless = table.files.mapped(removed, status.st_dev, status.st_ino + 1);
    EXPECT_EQ(removed, table.of(nameless).path);
    EXPECT_EQ(image::kFileUnlinked, table.of(nameless).flags);
}

// On btrfs and overlayfs stat(2) gives a made-up device and the maps another one. The file here has
// such a device, since tmpfs has no other, and the mapping is said to have the next one.
TEST(Files, ADeletedFileIsThatOfItsDescriptorWhateverItsDevice)
{
    std::string path = "/dev/shm/cryo-files.XXXXXX";
    const Fd file(mkostemp(path.data(), O_CLOEXEC));
    struct stat status = {};
    if (!file || fstat(file.get(), &status) != 0 || major(status.st_dev) != 0) {
        unlink(path.c_str());
        GTEST_SKIP() << "no tmpfs at /dev/shm";
    }
    ASSERT_EQ(0, unlink(path.c_str()));
    // This process is the one that is saved, all of whose other descriptors are left out. Its agent
    // passes on the descriptor.
    std::array<int, 2> ends{};
    ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()));
    AgentSession session = AgentSession::adopt(Fd(ends[0]), getpid());
    const Fd agent(ends[1]);
    const agent::Reply reply = {
        agent::protocol_magic, agent::protocol_version, agent::Op::descriptors, 0, 0, 0};
    ASSERT_EQ(ssize_t(sizeof(reply)), send_with(agent.get(), bytes_of(reply), {{file.get()}}));
    const Proc proc(getpid());
    Problems problems;
    std::set<int> ours;
    for (int fd = 0; fd < 1024; fd++) {
        if (fd != file.get())
            ours.insert(fd);
    }
    Table table;
    const Result<void> read = table.files.read_descriptors({{proc, problems, session, ours}}, {});
    ASSERT_TRUE(read) << read.error().text();
    ASSERT_TRUE(problems.empty()) << problems.error(getpid()).text();
    ASSERT_EQ(1U, table.files.files().size());

    const uint32_t mapped = table.files.mapped(path, status.st_dev + 1, status.st_ino);
    EXPECT_EQ(1U, mapped);
    EXPECT_NE(0U, table.of(mapped).object);
    EXPECT_NE(1U, table.files.mapped(path, status.st_dev + 1, status.st_ino + 1));
    EXPECT_NE(1U, table.files.mapped(path + "2", status.st_dev + 2, status.st_ino));
}

// A hostile program can find a file with the number of another one, and put a link in its place.
TEST(Files, NoLinkLeadsToWhatIsSaved)
{
    const Scratch directory;
    const std::string path = directory / "there/file";
    ASSERT_TRUE(fs::create_directory(directory / "there"));
    struct stat status = {};
    {
        const Fd made(open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
        ASSERT_TRUE(made);
        ASSERT_EQ(0, ftruncate(made.get(), image::kPageSize));
        ASSERT_EQ(0, fstat(made.get(), &status));
    }
    fs::create_symlink(path, directory / "link");
    fs::create_directory_symlink(directory / "there", directory / "to");
    const auto save = [&](const std::string &name) {
        Table table;
        table.files.save_by_name(table.files.mapped(name, status.st_dev + 1, status.st_ino));
        auto sink = image::FileSink::create(directory / "image", {.sync = false});
        EXPECT_TRUE(sink);
        auto writer = image::ImageWriter::create(std::move(*sink));
        EXPECT_TRUE(writer);
        return table.files.save_contents(**writer, [] {});
    };
    EXPECT_TRUE(save(path));
    EXPECT_FALSE(save(directory / "link"));
    EXPECT_FALSE(save(directory / "to/file"));
}

// A device there may do something when it is opened.
TEST(Files, WhatHasComeToTheirPlaceIsNotOpened)
{
    const Scratch directory;
    const std::string path = directory / "file";
    struct stat status = {};
    {
        const Fd made(open(path.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, 0600));
        ASSERT_TRUE(made);
        ASSERT_EQ(0, ftruncate(made.get(), image::kPageSize));
        ASSERT_EQ(0, fstat(made.get(), &status));
    }
    Table table;
    table.files.save_by_name(table.files.mapped(path, status.st_dev, status.st_ino));
    fs::rename(path, directory / "former");
    ASSERT_EQ(0, mkfifo(path.c_str(), 0600));
    const Fd opens(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    ASSERT_TRUE(opens);
    ASSERT_GE(inotify_add_watch(opens.get(), path.c_str(), IN_OPEN), 0);
    auto sink = image::FileSink::create(directory / "image", {.sync = false});
    ASSERT_TRUE(sink);
    auto writer = image::ImageWriter::create(std::move(*sink));
    ASSERT_TRUE(writer);
    const Result<void> saved = table.files.save_contents(**writer, [] {});
    ASSERT_FALSE(saved);
    EXPECT_EQ(ESTALE, saved.error().code());
    std::array<char, 4096> events{};
    EXPECT_EQ(-1, read(opens.get(), events.data(), events.size()));
    EXPECT_EQ(EAGAIN, errno);
}

TEST(Files, NothingButARegularFileIsOpenedToBeIdentified)
{
    const Scratch directory;
    const std::string path = directory / "fifo";
    ASSERT_EQ(0, mkfifo(path.c_str(), 0600));
    const Fd opens(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    ASSERT_TRUE(opens);
    ASSERT_GE(inotify_add_watch(opens.get(), path.c_str(), IN_OPEN), 0);
    EXPECT_FALSE(identify(path));
    EXPECT_FALSE(is_preloadable(path));
    std::array<char, 4096> events{};
    EXPECT_EQ(-1, read(opens.get(), events.data(), events.size()));
    EXPECT_EQ(EAGAIN, errno);
    EXPECT_TRUE(identify("/proc/self/exe"));
    EXPECT_TRUE(is_preloadable("/proc/self/exe"));
}

TEST(Files, NothingIsPreloadedIntoProgramsOfMusl)
{
    constexpr char linker[] = "/lib/ld-musl-x86_64.so.1";
    Elf64_Ehdr head = {};
    memcpy(head.e_ident, ELFMAG, SELFMAG);
    head.e_ident[EI_CLASS] = ELFCLASS64;
    head.e_phoff = sizeof(head);
    head.e_phnum = 1;
    Elf64_Phdr interpreter = {};
    interpreter.p_type = PT_INTERP;
    interpreter.p_offset = sizeof(head) + sizeof(interpreter);
    interpreter.p_filesz = sizeof(linker);
    const Scratch directory;
    const std::string path = directory / "program";
    std::ofstream file(path);
    file.write(reinterpret_cast<const char *>(&head), sizeof(head));
    file.write(reinterpret_cast<const char *>(&interpreter), sizeof(interpreter));
    file.write(linker, sizeof(linker));
    file.close();
    EXPECT_TRUE(is_of_musl(path));
    EXPECT_FALSE(is_preloadable(path));
    EXPECT_NE(std::string::npos, why_not_preloadable(path).find("musl"));
    EXPECT_FALSE(is_of_musl("/proc/self/exe"));
}

} // namespace
} // namespace cryo::capture
