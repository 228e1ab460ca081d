// SPDX-License-Identifier: Apache-2.0
// Directories of programs' files: what is read, and under whose name; and what hostile users put
// there.
#include "metrics/collector.hpp"

#include "../scratch.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::metrics {

namespace {

namespace fs = std::filesystem;

class CollectorTest : public testing::Test
{
  protected:
    void SetUp() override { ASSERT_EQ(chmod(dir_.path().c_str(), 0755), 0); }

    static std::string content(pid_t pid, double count = 3)
    {
        Program program{.pid = pid, .command = "solver"};
        program.values[checkpoints] = count;
        return text_of(program);
    }
    void write(const std::string &name, const std::string &text) const
    {
        std::ofstream(dir_ / name) << text;
        ASSERT_EQ(chmod((dir_ / name).c_str(), 0644), 0);
    }
    std::string look() { return look(collector_); }
    static std::string look(Collector &collector)
    {
        Exposition text;
        collector.look(text);
        return text.text();
    }
    static std::string line_of(pid_t pid, const std::string &user, int count = 3)
    {
        return "cryo_checkpoints_total{pid=\"" + std::to_string(pid) +
               "\",command=\"solver\",user=\"" + user + "\"} " + std::to_string(count) + "\n";
    }
    static std::string refused(const std::string &reason, int count = 1)
    {
        return "cryo_metrics_refused{user=\"" + self() + "\",reason=\"" + reason + "\"} " +
               std::to_string(count) + "\n";
    }
    static std::string self()
    {
        const passwd *known = getpwuid(geteuid());
        return known != nullptr ? known->pw_name : std::to_string(geteuid());
    }

    Scratch dir_;
    std::vector<std::string> said_;
    Collector collector_{{dir_.path().string()},
                         [this](const Error &error) { said_.push_back(error.text()); }};
};

#define EXPECT_HAS(text, part)                                                                     \
    EXPECT_NE((text).find(part), std::string::npos) << (part) << "is not in\n" << (text)
#define EXPECT_HAS_NOT(text, part) EXPECT_EQ((text).find(part), std::string::npos) << (text)

TEST_F(CollectorTest, FilesThereAndBelow)
{
    write("cryo-412.prom", content(412));
    fs::create_directory(dir_ / "alice");
    write("alice/cryo-413.prom", content(413, 7));
    fs::create_directories(dir_ / "alice/deeper");
    write("alice/deeper/cryo-414.prom", content(414));
    write("other.prom", "node_load1 1\n");
    ASSERT_TRUE(collector_.check());
    const std::string text = look();
    EXPECT_HAS(text, line_of(412, self()));
    EXPECT_HAS(text, line_of(413, self(), 7));
    EXPECT_HAS_NOT(text, "pid=\"414\"");
    EXPECT_HAS_NOT(text, "node_load1");
    EXPECT_HAS(text, "\ncryo_metrics_programs 2\n");
    EXPECT_HAS(text, "cryo_metrics_directory_up{directory=\"" + dir_.path().string() + "\"} 1\n");
    EXPECT_HAS_NOT(text, "cryo_metrics_refused");
    EXPECT_TRUE(said_.empty()) << said_.front();
}

TEST_F(CollectorTest, WhatIsNoFileOfItsOwner)
{
    write("cryo-1.prom", content(1));
    fs::create_symlink("cryo-1.prom", dir_ / "cryo-2.prom");
    ASSERT_EQ(mkfifo((dir_ / "cryo-3.prom").c_str(), 0644), 0);
    fs::create_directory(dir_ / "cryo-4.prom");
    write("cryo-5.prom", content(5));
    fs::create_hard_link(dir_ / "cryo-5.prom", dir_ / "elsewhere");
    write("cryo-6.prom", content(6));
    ASSERT_EQ(chmod((dir_ / "cryo-6.prom").c_str(), 0664), 0);
    fs::create_symlink("/etc", dir_ / "etc");
    const std::string text = look();
    EXPECT_HAS(text, line_of(1, self()));
    EXPECT_HAS(text, "\ncryo_metrics_programs 1\n");
    EXPECT_HAS(text, refused("owner"));
    EXPECT_HAS(text, refused("mode"));
    // A link is refused on the way by a kernel that can, and as what it is by another one.
    EXPECT_EQ(said_.size(), 5U);
    EXPECT_TRUE(text.find(refused("kind", 2)) != std::string::npos ||
                text.find(refused("kind", 3)) != std::string::npos)
        << text;
    look();
    EXPECT_EQ(said_.size(), 5U); // once
}

TEST_F(CollectorTest, MalformedAndHuge)
{
    write("cryo-1.prom", "cryo_checkpoints_total{pid=\"2\",command=\"x\"} 3\n");
    write("cryo-2.prom", std::string(size_t(1) << 20, '\n'));
    write("cryo-3.prom", "");
    const std::string text = look();
    EXPECT_HAS(text, refused("form", 2));
    EXPECT_HAS(text, refused("size"));
    EXPECT_HAS(text, "\ncryo_metrics_programs 0\n");
}

TEST_F(CollectorTest, ManyNames)
{
    for (int i = 0; i < 5000; i++)
        std::ofstream(dir_ / ("name" + std::to_string(i)));
    EXPECT_HAS(look(), refused("count"));
}

TEST_F(CollectorTest, ManyProgramsOfOneLeaveRoomForOthers)
{
    fs::create_directory(dir_ / "many");
    for (pid_t pid = 1; pid <= 1010; pid++)
        write("many/" + file_name(pid), content(pid));
    write("cryo-5000.prom", content(5000));
    fs::create_directory(dir_ / "few");
    write("few/cryo-5001.prom", content(5001));
    const std::string text = look();
    EXPECT_HAS(text, "\ncryo_metrics_programs 1002\n");
    EXPECT_HAS(text, refused("count", 10));
    EXPECT_HAS(text, line_of(5000, self()));
    EXPECT_HAS(text, line_of(5001, self()));
}

TEST_F(CollectorTest, SameProcessTwice)
{
    write("cryo-1.prom", content(1));
    fs::create_directory(dir_ / "again");
    write("again/cryo-1.prom", content(1));
    const std::string text = look();
    EXPECT_HAS(text, refused("twice"));
    EXPECT_EQ(text.find(line_of(1, self())), text.rfind(line_of(1, self())));
}

TEST_F(CollectorTest, UserIsTheOwnerWhateverTheFileSays)
{
    if (geteuid() != 0)
        return;                          // only root makes files of other users
    fs::create_directory(dir_ / "root"); // a name is no owner either
    write("root/cryo-1.prom", content(1));
    write("root/cryo-2.prom", content(2));
    ASSERT_EQ(chown((dir_ / "root").c_str(), 65534, 65534), 0);
    ASSERT_EQ(chown((dir_ / "root/cryo-1.prom").c_str(), 65534, 65534), 0);
    const std::string text = look();
    EXPECT_HAS(text, line_of(1, "nobody"));
    EXPECT_HAS(text, "cryo_metrics_refused{user=\"nobody\",reason=\"owner\"} 1\n");

    ASSERT_EQ(chmod((dir_ / "root/cryo-1.prom").c_str(), 0600), 0);
    EXPECT_HAS(look(), "cryo_metrics_refused{user=\"nobody\",reason=\"mode\"} 1\n");
    ASSERT_EQ(chmod((dir_ / "root").c_str(), 0777), 0);
    EXPECT_HAS_NOT(look(), "cryo_checkpoints_total");
}

// As by a group that the reader belongs to: what is served is there for all to read.
TEST_F(CollectorTest, WhatIsNotForAllIsServedByItsOwner)
{
    fs::create_directory(dir_ / "alice");
    write("alice/cryo-1.prom", content(1));
    const fs::path alice(dir_ / "alice");
    ASSERT_EQ(chmod(alice.c_str(), 0700), 0);
    EXPECT_HAS(look(), line_of(1, self()));
    if (geteuid() != 0)
        return; // only root has directories of other users
    ASSERT_EQ(chown((alice / "cryo-1.prom").c_str(), 65534, 65534), 0);
    ASSERT_EQ(chown(alice.c_str(), 65534, 65534), 0);
    for (const mode_t mode : {0700U, 0750U, 0754U, 0751U}) {
        ASSERT_EQ(chmod(alice.c_str(), mode), 0);
        const std::string text = look();
        EXPECT_HAS(text, "cryo_metrics_refused{user=\"nobody\",reason=\"mode\"} 1\n");
        EXPECT_HAS_NOT(text, "cryo_checkpoints_total");
    }
    ASSERT_EQ(chmod(alice.c_str(), 0755), 0);
    EXPECT_HAS(look(), line_of(1, "nobody"));
}

TEST_F(CollectorTest, ManyBadFilesOfOneAreToldWithoutSilencingOthers)
{
    if (geteuid() != 0)
        return; // only root makes files of other users
    fs::create_directory(dir_ / "theirs");
    for (pid_t pid = 1; pid <= 300; pid++) {
        const std::string name = "theirs/" + file_name(pid);
        write(name, "");
        ASSERT_EQ(chown((dir_ / name).c_str(), 65534, 65534), 0);
    }
    ASSERT_EQ(chown((dir_ / "theirs").c_str(), 65534, 65534), 0);
    look();
    EXPECT_LT(said_.size(), 100U);
    const size_t before = said_.size();
    write("cryo-1000.prom", "");
    look();
    EXPECT_EQ(said_.size(), before + 1);
}

TEST_F(CollectorTest, DirectoryInWhichOthersMayRename)
{
    ASSERT_EQ(chmod(dir_.path().c_str(), 0777), 0);
    const Result<void> refused = collector_.check();
    ASSERT_FALSE(refused);
    EXPECT_HAS(refused.error().text(), "chmod +t");
    ASSERT_EQ(chmod(dir_.path().c_str(), 01777), 0);
    EXPECT_TRUE(collector_.check());
}

TEST_F(CollectorTest, DirectoryThatIsNamedTwice)
{
    write("cryo-1.prom", content(1));
    const std::string path = dir_.path().string();
    Collector twice({path, path}, [](const Error &) {});
    const std::string text = look(twice);
    const std::string up = "cryo_metrics_directory_up{directory=\"" + path + "\"} 1\n";
    EXPECT_HAS(text, up);
    EXPECT_EQ(text.find(up), text.rfind(up)) << text;
    EXPECT_HAS_NOT(text, "cryo_metrics_refused");
}

TEST_F(CollectorTest, DirectoryThatGoesAway)
{
    write("cryo-1.prom", content(1));
    Collector both({dir_.path().string(), dir_ / "later"},
                   [this](const Error &error) { said_.push_back(error.text()); });
    ASSERT_FALSE(both.check());
    const std::string text = look(both);
    EXPECT_HAS(text, line_of(1, self()));
    EXPECT_HAS(text, "cryo_metrics_directory_up{directory=\"" + (dir_ / "later") + "\"} 0\n");
    EXPECT_EQ(said_.size(), 1U);
    fs::create_directory(dir_ / "later");
    ASSERT_EQ(chmod((dir_ / "later").c_str(), 0755), 0);
    EXPECT_HAS(look(both), "cryo_metrics_directory_up{directory=\"" + (dir_ / "later") + "\"} 1\n");
}

} // namespace

} // namespace cryo::metrics
