// SPDX-License-Identifier: Apache-2.0
#include "../image/flagless_renames.hpp"
#include "../plain_user.hpp"
#include "base/fd.hpp"
#include "base/left_over.hpp"
#include "resources/socket/socket_name.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

namespace cryo::resources {

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
        for (const char *file : {"old", "new", "a", "b", "c"})
            unlink((directory_ + "/" + file).c_str());
        EXPECT_EQ(0, rmdir(directory_.c_str()));
    }
    SocketName at(const char *file) const { return named(directory_ + "/" + file); }
    bool is_there(const char *file) const { return access(at(file).path(), F_OK) == 0; }
    Fd bound_to(const char *file) const
    {
        const SocketName name = at(file);
        Fd made(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(0, bind(made.get(), name.get(), name.size));
        return made;
    }
    void leaves(SocketRenames &all, const char *old, const char *renamed) const
    {
        const Result<void> left = all.leave(at(old), at(renamed), SOCK_DGRAM);
        EXPECT_TRUE(left) << left.error().text();
        EXPECT_FALSE(is_there(old));
        EXPECT_FALSE(is_there(renamed));
    }
    void renames() const
    {
        const Fd bound = bound_to("old");
        SocketRenames all;
        leaves(all, "old", "new");
        const Result<void> done = all.arrive();
        EXPECT_TRUE(done) << done.error().text();
        EXPECT_FALSE(is_there("old"));
        EXPECT_TRUE(is_there("new"));
    }

    std::string directory_;
};

TEST_F(RenamedSocket, IsFoundToBeDeadWhateverItsModeForbids)
{
    EXPECT_TRUE(holds_for_plain_user(directory_, [this] {
        bound_to("a").reset();
        return chmod(at("a").path(), 0) == 0 && remove_stale(at("a"), SOCK_DGRAM) && !is_there("a");
    }));
}

TEST_F(RenamedSocket, IsFoundToBeUsedAndKeepsItsMode)
{
    EXPECT_TRUE(holds_for_plain_user(directory_, [this] {
        const Fd bound = bound_to("a");
        struct stat now = {};
        return chmod(at("a").path(), 0400) == 0 &&
               remove_stale(at("a"), SOCK_DGRAM).error().code() == EADDRINUSE &&
               stat(at("a").path(), &now) == 0 && (now.st_mode & 07777) == 0400;
    }));
}

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
    const Fd bound = bound_to("old");
    {
        SocketRenames all;
        leaves(all, "old", "new");
        const Fd taken(open(at("new").path(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        EXPECT_FALSE(all.arrive());
    }
    struct stat found = {};
    EXPECT_EQ(0, stat(at("new").path(), &found));
    EXPECT_TRUE(S_ISREG(found.st_mode));
    EXPECT_FALSE(is_there("old")); // nor anything else: the directory can be removed
}

TEST_F(RenamedSocket, IsRemovedIfItsRestartGoesNoFurther)
{
    const Fd bound = bound_to("old");
    SocketRenames all;
    leaves(all, "old", "new");
}

TEST_F(RenamedSocket, TakesAwayWhatAKilledRestartHasLeft)
{
    const std::string left = socket_for_now();
    bound_to(left.c_str()).reset();
    ASSERT_TRUE(is_there(left.c_str()));
    renames();
    EXPECT_FALSE(is_there(left.c_str())); // else the directory cannot be removed
}

TEST_F(RenamedSocket, IsWhereTheNextOneOfARingWasBound)
{
    constexpr const char *names[] = {"a", "b", "c"};
    Fd bound[3];
    SocketRenames all;
    for (size_t i = 0; i < 3; i++) {
        bound[i] = bound_to(names[i]);
        leaves(all, names[i], names[(i + 1) % 3]);
    }
    const Result<void> done = all.arrive();
    EXPECT_TRUE(done) << done.error().text();
    for (size_t i = 0; i < 3; i++) {
        const SocketName now = at(names[(i + 1) % 3]);
        const Fd caller(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
        EXPECT_EQ(1, sendto(caller.get(), names[i], 1, 0, now.get(), now.size));
        char got = 0;
        EXPECT_EQ(1, recv(bound[i].get(), &got, 1, MSG_DONTWAIT));
        EXPECT_EQ(*names[i], got);
    }
}

} // namespace

} // namespace cryo::resources
