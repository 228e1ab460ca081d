// SPDX-License-Identifier: Apache-2.0
#include "../image/flagless_renames.hpp"
#include "base/fd.hpp"
#include "restore/socket_name.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

SocketName named(const std::string &path)
{
    sockaddr_un name = {};
    name.sun_family = AF_UNIX;
    memcpy(name.sun_path, path.c_str(), std::min(path.size(), sizeof(name.sun_path) - 1));
    return SocketName(image::Bytes(reinterpret_cast<const uint8_t *>(&name), sizeof(name)));
}

class RenamedSocket : public testing::Test
{
  protected:
    void SetUp() override
    {
        char path[] = "/tmp/cryo-test-socket-XXXXXX";
        ASSERT_NE(nullptr, mkdtemp(path));
        directory_ = path;
    }
    void TearDown() override
    {
        for (const char *file : {"old", "new"})
            unlink((directory_ + "/" + file).c_str());
        EXPECT_EQ(0, rmdir(directory_.c_str()));
    }
    SocketName at(const char *file) const { return named(directory_ + "/" + file); }
    bool is_there(const char *file) const { return access(at(file).path(), F_OK) == 0; }
    void renames() const
    {
        const Fd bound(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(0, bind(bound.get(), at("old").get(), at("old").size));
        const Result<void> done = rename_socket(at("old"), at("new"), SOCK_DGRAM);
        EXPECT_TRUE(done) << done.error().text();
        EXPECT_FALSE(is_there("old"));
        EXPECT_TRUE(is_there("new"));
    }

  private:
    std::string directory_;
};

TEST_F(RenamedSocket, IsFoundUnderTheNewName)
{
    renames();
}

TEST_F(RenamedSocket, IsLinkedWhereRenamesHaveNoFlags)
{
    const int status = image::where_renames_have_no_flags([this] { renames(); });
    if (status == image::no_filter)
        GTEST_SKIP() << "no seccomp";
    EXPECT_EQ(0, status);
}

TEST_F(RenamedSocket, ReplacesNoFileThatIsNoSocket)
{
    const Fd taken(open(at("new").path(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    const Fd bound(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(0, bind(bound.get(), at("old").get(), at("old").size));
    EXPECT_FALSE(rename_socket(at("old"), at("new"), SOCK_DGRAM));
    EXPECT_FALSE(is_there("old"));
    EXPECT_TRUE(is_there("new"));
}

} // namespace

} // namespace cryo::restore
