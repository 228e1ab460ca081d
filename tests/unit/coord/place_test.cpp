// SPDX-License-Identifier: Apache-2.0
#include "coord/place.hpp"

#include <climits>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

using namespace cryo::coord;

namespace {

namespace fs = std::filesystem;

std::string runtime_of(const std::string &variable)
{
    const char *environment[] = {variable.c_str(), nullptr};
    char path[PATH_MAX];
    const char *const *list = static_cast<const char *const *>(environment);
    return runtime_directory(list, path, sizeof(path)) ? path : "";
}

const std::string in_tmp = common_runtime + std::to_string(geteuid());

} // namespace

class RuntimeDirectory : public testing::Test
{
  protected:
    void SetUp() override { ASSERT_NE(mkdtemp(own_.data()), nullptr); } // mode 0700
    void TearDown() override { fs::remove(own_); }

    std::string own_ = fs::canonical(testing::TempDir()).string() + "/cryo-place.XXXXXX";
};

TEST_F(RuntimeDirectory, IsTheUsersOwn)
{
    EXPECT_EQ(runtime_of("XDG_RUNTIME_DIR=" + own_), own_ + "/cryo");
    EXPECT_EQ(runtime_of("CRYO_RUNTIME_DIR=/run/user/1/a"), "/run/user/1/a"); // as the user says
}

TEST_F(RuntimeDirectory, IsNotOneOfOthers)
{
    ASSERT_EQ(chmod(own_.c_str(), 0755), 0);
    EXPECT_EQ(runtime_of("XDG_RUNTIME_DIR=" + own_), in_tmp);
    EXPECT_EQ(runtime_of("XDG_RUNTIME_DIR=" + own_ + "/nothing"), in_tmp);
    EXPECT_EQ(runtime_of("HOME=/"), in_tmp);
}

// Jobs go on when the user has logged out; such a directory does not.
TEST_F(RuntimeDirectory, OutlivesTheLogin)
{
    const std::string of_login = "/run/user/../.." + own_; // the private one, by such a name
    if (!fs::exists(of_login))
        GTEST_SKIP() << "there is no /run/user here";
    EXPECT_EQ(runtime_of("XDG_RUNTIME_DIR=" + of_login), in_tmp);
}
