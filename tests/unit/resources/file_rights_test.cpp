// SPDX-License-Identifier: Apache-2.0
// The file of a socket gets the owner, the group and the mode that it had, and no other file does.
#include "resources/socket/file_rights.hpp"

#include "base/fd.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

namespace cryo::resources {

namespace {

constexpr uid_t other_user = 12340;
constexpr gid_t other_group = 12350;

// Takes all capabilities from this thread for a while.
class WithoutPrivileges
{
  public:
    WithoutPrivileges()
    {
        syscall(SYS_capget, &head_, before_);
        __user_cap_data_struct now[2] = {before_[0], before_[1]};
        now[0].effective = now[1].effective = 0;
        EXPECT_EQ(0, syscall(SYS_capset, &head_, now));
    }
    ~WithoutPrivileges() { EXPECT_EQ(0, syscall(SYS_capset, &head_, before_)); }
    WithoutPrivileges(const WithoutPrivileges &) = delete;
    WithoutPrivileges &operator=(const WithoutPrivileges &) = delete;

  private:
    __user_cap_header_struct head_ = {_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct before_[2] = {};
};

class FileRightsTest : public testing::Test
{
  protected:
    void SetUp() override
    {
        char made[] = "/tmp/cryo-rights-XXXXXX";
        ASSERT_NE(mkdtemp(made), nullptr);
        directory_ = made;
        path_ = directory_ + "/socket";
        sockaddr_un name = {};
        name.sun_family = AF_UNIX;
        strcpy(name.sun_path, path_.c_str());
        socket_.reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
        ASSERT_EQ(0, bind(socket_.get(), reinterpret_cast<const sockaddr *>(&name), sizeof(name)));
    }
    void TearDown() override
    {
        for (const char *name : {"/socket", "/other", "/target"})
            unlink((directory_ + name).c_str());
        EXPECT_EQ(0, rmdir(directory_.c_str()));
    }
    struct stat now(const std::string &path) const
    {
        struct stat status = {};
        EXPECT_EQ(0, lstat(path.c_str(), &status));
        return status;
    }

    std::string directory_, path_;
    Fd socket_;
};

TEST_F(FileRightsTest, AreGivenAgain)
{
    if (geteuid() != 0)
        GTEST_SKIP() << "only root gives files away";
    const Result<std::string> lost =
        give_rights(socket_.get(), path_.c_str(), {S_IFSOCK | 0602, other_user, other_group});
    ASSERT_TRUE(lost) << lost.error().text();
    EXPECT_EQ("", *lost);
    EXPECT_EQ(S_IFSOCK | 0602U, now(path_).st_mode);
    EXPECT_EQ(other_user, now(path_).st_uid);
    EXPECT_EQ(other_group, now(path_).st_gid);
}

TEST_F(FileRightsTest, OfAnOlderImageAreTheMode)
{
    const struct stat before = now(path_);
    const Result<std::string> lost = give_rights(socket_.get(), path_.c_str(), {0611});
    ASSERT_TRUE(lost) << lost.error().text();
    EXPECT_EQ("", *lost);
    EXPECT_EQ(S_IFSOCK | 0611U, now(path_).st_mode);
    EXPECT_EQ(before.st_uid, now(path_).st_uid);
    EXPECT_EQ(before.st_gid, now(path_).st_gid);
}

TEST_F(FileRightsTest, ThatMayNotBeGivenAreTold)
{
    const WithoutPrivileges for_now;
    const Result<std::string> lost =
        give_rights(socket_.get(), path_.c_str(), {0640, other_user, other_group});
    ASSERT_TRUE(lost) << lost.error().text();
    EXPECT_NE(std::string::npos, lost->find("cannot be given back to user 12340 and group 12350"))
        << *lost;
    EXPECT_EQ(geteuid(), now(path_).st_uid);
    EXPECT_EQ(S_IFSOCK | 0640U, now(path_).st_mode);
}

// Another user has put a link there; the kernel tells the socket's own file only to who administers
// the network.
TEST_F(FileRightsTest, AreNotGivenToAnotherFile)
{
    const std::string target = directory_ + "/target";
    ASSERT_EQ(0, rename(path_.c_str(), (directory_ + "/other").c_str()));
    ASSERT_TRUE(Fd(open(target.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600)));
    ASSERT_EQ(0, symlink(target.c_str(), path_.c_str()));
    {
        const WithoutPrivileges for_now;
        const Result<std::string> refused = give_rights(socket_.get(), path_.c_str(), {0666});
        ASSERT_FALSE(refused);
        EXPECT_EQ(ESTALE, refused.error().code());
    }
    EXPECT_EQ(S_IFREG | 0600U, now(target).st_mode);
    const auto given = give_rights(socket_.get(), path_.c_str(), {0666});
    EXPECT_EQ(S_IFREG | 0600U, now(target).st_mode);
    if (given) {
        EXPECT_EQ(S_IFSOCK | 0666U, now(directory_ + "/other").st_mode);
    }
}

} // namespace

} // namespace cryo::resources
