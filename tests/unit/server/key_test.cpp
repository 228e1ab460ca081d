// SPDX-License-Identifier: Apache-2.0
#include "server/key.hpp"

#include "../scratch.hpp"

#include <cerrno>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace cryo::server {

namespace {

void write(const std::string &path, const std::string &text, mode_t mode = 0600)
{
    std::ofstream(path) << text;
    chmod(path.c_str(), mode);
}

int code_of(const std::string &path)
{
    const Result<std::string> key = read_key(path);
    return key ? 0 : key.error().code();
}

} // namespace

TEST(ServerKey, IsMadeForItsOwnerAloneAndNeverReplaced)
{
    const Scratch dir;
    umask(0);
    ASSERT_TRUE(make_key(dir / "key"));
    struct stat status = {};
    ASSERT_EQ(0, stat((dir / "key").c_str(), &status));
    EXPECT_EQ(0600U, status.st_mode & 07777U);
    const Result<std::string> key = read_key(dir / "key");
    ASSERT_TRUE(key);
    EXPECT_EQ(64U, key->size());
    const Result<void> again = make_key(dir / "key");
    ASSERT_FALSE(again);
    EXPECT_EQ(EEXIST, again.error().code());
    EXPECT_EQ(*key, *read_key(dir / "key"));
}

TEST(ServerKey, IsMadeWhereTheDirectoryOfSettingsIsMissing)
{
    const Scratch dir;
    umask(0);
    ASSERT_TRUE(make_key(dir / "settings/cryo/server.key"));
    EXPECT_TRUE(read_key(dir / "settings/cryo/server.key"));
    for (const char *made : {"settings", "settings/cryo"}) {
        struct stat status = {};
        ASSERT_EQ(0, stat((dir / made).c_str(), &status));
        EXPECT_EQ(0700U, status.st_mode & 07777U);
    }
}

TEST(ServerKey, IsRefusedWhereOthersMayKnowIt)
{
    const Scratch dir;
    const std::string good(64, 'a');
    write(dir / "good", good + "\n");
    EXPECT_EQ(0, code_of(dir / "good"));
    for (const mode_t mode : {0640, 0604, 0660, 0606}) {
        write(dir / "open", good, mode);
        EXPECT_EQ(EACCES, code_of(dir / "open")) << mode;
    }
    ASSERT_EQ(0, symlink((dir / "good").c_str(), (dir / "link").c_str()));
    EXPECT_EQ(ELOOP, code_of(dir / "link"));
    ASSERT_EQ(0, mkfifo((dir / "fifo").c_str(), 0600)); // is not waited for
    EXPECT_EQ(EINVAL, code_of(dir / "fifo"));
    EXPECT_EQ(ENOENT, code_of(dir / "none"));
}

TEST(ServerKey, IsRefusedIfItIsNone)
{
    const Scratch dir;
    for (const std::string &text :
         {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g'),
          std::string(64, 'a') + "\n\n", std::string(100000, 'a')}) {
        write(dir / "key", text);
        EXPECT_EQ(EINVAL, code_of(dir / "key")) << text.size();
    }
}

TEST(ServerKey, TellsWhichNodeAClientIs)
{
    EXPECT_EQ("n7", node_in("store/n7"));
    EXPECT_TRUE(node_in(own_identity()));
    for (const char *identity : {"", "store/", "join/n7", "store/../n7", "store/a\nb"})
        EXPECT_FALSE(node_in(identity)) << identity;
}

} // namespace cryo::server
