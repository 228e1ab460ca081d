// SPDX-License-Identifier: Apache-2.0
// What restarts that were killed have left goes, and nothing else.
#include "base/left_over.hpp"

#include "base/pipe.hpp"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <set>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo {

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

class LeftOver : public testing::Test
{
  protected:
    LeftOver()
    {
        char pattern[] = "/tmp/cryo-unit.XXXXXX";
        EXPECT_NE(nullptr, mkdtemp(pattern));
        dir_ = pattern;
    }
    ~LeftOver() override
    {
        std::error_code ignored;
        fs::remove_all(dir_, ignored);
    }
    LeftOver(const LeftOver &) = delete;
    LeftOver &operator=(const LeftOver &) = delete;

    Names names() const
    {
        Names found;
        for (const auto &entry : fs::directory_iterator(dir_))
            found.insert(entry.path().filename());
        return found;
    }
    Directory directory() const
    {
        Result<Directory> opened = Directory::open(dir_);
        EXPECT_TRUE(opened) << opened.error().text();
        return std::move(*opened);
    }
    // A name as a restart makes it.
    std::string name(const std::string &before, const std::string &end) const
    {
        const std::string pattern = name_for_now(before);
        return pattern.substr(0, pattern.size() - end.size()) + end;
    }
    std::string add(const std::string &name) const
    {
        std::string path = dir_ + "/" + name;
        std::ofstream(path) << "contents";
        return path;
    }
    // Of a restart that goes on, or was killed.
    Fd make_file(const std::string &before) const
    {
        std::string path = dir_ + "/" + name_for_now(before);
        return Fd(mkostemp(path.data(), O_CLOEXEC));
    }
    Fd bind(const std::string &name, int kind) const
    {
        Fd made(socket(AF_UNIX, kind | SOCK_CLOEXEC, 0));
        sockaddr_un address = {};
        address.sun_family = AF_UNIX;
        const std::string path = dir_ + "/" + name;
        memcpy(address.sun_path, path.c_str(), path.size());
        EXPECT_EQ(
            0, ::bind(made.get(), reinterpret_cast<const sockaddr *>(&address), sizeof(address)));
        return made;
    }

    std::string dir_;
};

// A process that does this and is killed when that is done.
void do_and_be_killed(const std::function<void()> &work)
{
    Result<PipeEnds> done = make_pipe();
    ASSERT_TRUE(done);
    const pid_t child = fork();
    if (child == 0) {
        work();
        done->write.reset();
        for (;;)
            pause();
    }
    done->write.reset();
    char byte = 0;
    EXPECT_EQ(0, read(done->read.get(), &byte, 1));
    kill(child, SIGKILL);
    EXPECT_EQ(child, waitpid(child, nullptr, 0));
}

TEST_F(LeftOver, NamesAreThoseOfThisBoot)
{
    EXPECT_TRUE(is_name_for_now(name("data", "aZ09bc")));
    EXPECT_TRUE(is_name_for_now(name("", "aZ09bc")));
    EXPECT_TRUE(is_name_for_now(socket_for_now()));
    EXPECT_FALSE(is_name_for_now(name("data", "aZ09b.")));
    EXPECT_FALSE(is_name_for_now(name("data", "aZ09bc") + "d"));
    for (const char *other :
         {"data", "data.cryo.aZ09bc", "data.cryo.00000000.aZ09bc", ".cryo.12.3"})
        EXPECT_FALSE(is_name_for_now(other)) << other;
}

TEST_F(LeftOver, NamesAreNotTooLong)
{
    const std::string longest(NAME_MAX, 'x');
    EXPECT_EQ(size_t{NAME_MAX}, name_for_now(longest).size());
    EXPECT_TRUE(make_file(longest));
    std::string euros;
    for (int i = 0; i < NAME_MAX / 3; i++)
        euros += "\u20ac";
    const std::string cut = name_for_now(euros);
    EXPECT_EQ(0U, cut.find(".cryo.") % 3);
}

TEST_F(LeftOver, FilesOfTheKilledGo)
{
    do_and_be_killed([&] { make_file("data"); });
    do_and_be_killed([&] { // it keeps the file by a mapping alone
        const HeldFile held = hold_file(make_file("mapped").get());
        EXPECT_NE(nullptr, held);
    });
    ASSERT_EQ(0, chmod(add(name("forbidden", "000000")).c_str(), 0));
    ASSERT_EQ(3U, names().size());
    sweep_left_files(directory());
    EXPECT_EQ(Names(), names());
}

TEST_F(LeftOver, OtherFilesStay)
{
    const Fd open = make_file("open");
    const HeldFile held = hold_file(make_file("held").get());
    ASSERT_TRUE(open);
    ASSERT_NE(nullptr, held);
    add("data");
    add("data.cryo.aZ09bc");
    add("data.cryo.00000000.aZ09bc"); // another boot's
    fs::create_directory(dir_ + "/" + name("directory", "000000"));
    fs::create_symlink("data", dir_ + "/" + name("link", "000000"));
    const Names before = names();
    sweep_left_files(directory());
    EXPECT_EQ(before, names());
}

TEST_F(LeftOver, DirectoriesOfTheKilledGo)
{
    do_and_be_killed([&] {
        Result<DirectoryForNow> made = DirectoryForNow::make(dir_);
        ASSERT_TRUE(made);
        fs::create_directory(made->path + "/7");
        ASSERT_EQ(0, mkfifo((made->path + "/7/fifo").c_str(), 0600));
        made->lock.release();
    });
    ASSERT_EQ(1U, names().size());
    const std::string left = *names().begin();
    add("data");
    fs::create_symlink(".", dir_ + "/" + name("", "000000"));
    const Result<DirectoryForNow> first = DirectoryForNow::make(dir_);
    const Result<DirectoryForNow> second = DirectoryForNow::make(dir_);
    ASSERT_TRUE(first && second);
    EXPECT_EQ((Names{"data", name("", "000000"), fs::path(first->path).filename(),
                     fs::path(second->path).filename()}),
              names());
    EXPECT_FALSE(fs::exists(dir_ + "/" + left));
}

// Another user may rename a directory of ours that lies in theirs.
TEST_F(LeftOver, DirectoriesWithFilesStay)
{
    const std::string like_one = name("", "000000");
    fs::create_directory(dir_ + "/" + like_one);
    fs::create_directory(dir_ + "/" + like_one + "/inner");
    add(like_one + "/data");
    add(like_one + "/inner/data");
    ASSERT_TRUE(DirectoryForNow::make(dir_));
    EXPECT_TRUE(fs::exists(dir_ + "/" + like_one + "/data"));
    EXPECT_TRUE(fs::exists(dir_ + "/" + like_one + "/inner/data"));
}

TEST_F(LeftOver, SocketsOfTheKilledGo)
{
    const std::string dead = socket_for_now();
    do_and_be_killed([&] { bind(dead, SOCK_STREAM).release(); });
    const std::string stream = name("", "000001");
    const std::string packets = name("", "000002");
    const std::string datagrams = name("", "000003");
    const Fd living[] = {bind(stream, SOCK_STREAM), bind(packets, SOCK_SEQPACKET),
                         bind(datagrams, SOCK_DGRAM)};
    do_and_be_killed([&] { bind("data", SOCK_STREAM).release(); });
    const std::string file = name("", "000004");
    add(file);
    ASSERT_TRUE(names().contains(dead));
    sweep_left_sockets(directory());
    EXPECT_EQ((Names{"data", stream, packets, datagrams, file}), names());
}

} // namespace

} // namespace cryo
