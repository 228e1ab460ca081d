// SPDX-License-Identifier: Apache-2.0
//
// When a job of Slurm ends, by what a squeue says: here a script.
#include "keeper/slurm.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace cryo::keeper::slurm {
namespace {

constexpr int soon_ms = 60'000; // for what does answer

class Slurm : public ::testing::Test
{
  protected:
    Slurm()
    {
        char name[] = "/tmp/cryo-slurm.XXXXXX";
        directory_ = mkdtemp(name);
    }
    ~Slurm() override { std::filesystem::remove_all(directory_); }

    std::string at(const std::string &name) const { return directory_ + "/" + name; }

    std::string squeue(const std::string &text) const
    {
        std::ofstream(at("squeue")) << "#!/bin/sh\n" << text << "\n";
        chmod(at("squeue").c_str(), 0755);
        return at("squeue");
    }
    bool has_process_here() const
    {
        const std::string here = std::filesystem::canonical(directory_);
        std::error_code gone;
        for (const auto &one : std::filesystem::directory_iterator("/proc")) {
            if (std::filesystem::read_symlink(one.path() / "cwd", gone) == here)
                return true;
        }
        return false;
    }
    std::string text_of(const std::string &name) const
    {
        std::string text;
        std::getline(std::ifstream(at(name)), text);
        return text;
    }

    std::string directory_;
};

TEST_F(Slurm, AnAnswerIsTheLineOfTheJob)
{
    EXPECT_EQ(read_answer("77 1900000000\n", "77")->value(), 1.9e9);
    EXPECT_EQ(read_answer("78 N/A\n77 1900000000\n79 1800000000\n", "77")->value(), 1.9e9);
    for (const char *none : {"77 NONE\n", "77 N/A"})
        EXPECT_FALSE(read_answer(none, "77")->has_value()) << none;
    for (const char *wrong :
         {"", "\n", "78 1900000000\n", "77\n", "77 2030-01-01T00:00:00\n", "77 -1\n", "77 1e9\n",
          "77 1900000000 1\n", "77 1900000000000\n", "77 0x10\n", "77 \033[31m"}) {
        const Result<std::optional<double>> read = read_answer(wrong, "77");
        ASSERT_FALSE(read) << wrong;
        EXPECT_EQ(read.error().text().find('\033'), std::string::npos);
    }
}

TEST_F(Slurm, AsksForTheJobAloneInSecondsSince1970)
{
    setenv("SLURM_TIME_FORMAT", "relative", 1);
    setenv("SQUEUE_STATES", "PENDING", 1);
    const std::string program =
        squeue("echo \"$*\" > $(dirname $0)/words; echo \"77 1900000000\"\n"
               "echo \"$SLURM_TIME_FORMAT,$SQUEUE_STATES,$LD_PRELOAD\" > $(dirname $0)/variables");
    const Result<std::string> answer = ask(program, "77", soon_ms);
    unsetenv("SLURM_TIME_FORMAT");
    unsetenv("SQUEUE_STATES");
    ASSERT_TRUE(answer) << answer.error().text();
    EXPECT_EQ(*answer, "77 1900000000\n");
    EXPECT_EQ(text_of("words"), "-h -a -j 77 -o %A %e");
    EXPECT_EQ(text_of("variables"), "%s,,");
}

TEST_F(Slurm, FailureIsSaid)
{
    EXPECT_EQ(ask(squeue("echo 77 1900000000; exit 1"), "77", soon_ms).error().code(), EIO);
    EXPECT_EQ(ask(at("none"), "77", soon_ms).error().code(), ENOENT);
    EXPECT_FALSE(ask(squeue("yes"), "77", soon_ms)); // no end of the answer
}

// A wrapper and what it waits for are both ended.
TEST_F(Slurm, NoAnswerInTimeIsNone)
{
    const std::string program = squeue("cd $(dirname $0)\nsleep 1000 &\nwait");
    const Result<std::string> answer = ask(program, "77", 1000);
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().code(), ETIME);
    const auto is_over = [&] { return !has_process_here(); };
    for (int ms = 0; ms < soon_ms && !is_over(); ms++)
        usleep(1000);
    EXPECT_TRUE(is_over());
}

TEST_F(Slurm, FoundWhereAShellWouldFindIt)
{
    std::filesystem::create_directory(at("empty"));
    const std::string program = std::filesystem::canonical(squeue("true"));
    const std::string path = at("empty") + ":.:" + directory_;
    EXPECT_EQ(*find_squeue(path.c_str(), 1000), program);
    EXPECT_FALSE(find_squeue(at("empty").c_str(), 1000));
    chmod(program.c_str(), 0644);
    if (access(program.c_str(), X_OK) != 0) {
        EXPECT_FALSE(find_squeue(path.c_str(), 1000));
    }
}

// In a directory below /tmp, where others may put things.
TEST_F(Slurm, RootExecutesNothingThatOthersMayChange)
{
    squeue("true");
    const Result<std::string> found = find_squeue(directory_.c_str(), 0);
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().text().find("others may change it"), std::string::npos);
}

// One that root has kept from somebody's session leads its squeue to nothing of theirs.
TEST_F(Slurm, RootsHasNoVariablesThatLeadToFilesOfOthers)
{
    const std::string own_path = getenv("PATH");
    setenv("PATH", (directory_ + ":" + own_path).c_str(), 1);
    for (const char *name :
         {"BASH_ENV", "ENV", "PYTHONPATH", "LD_LIBRARY_PATH", "SLURM_CONF_SERVER"})
        setenv(name, at("theirs").c_str(), 1);
    std::ofstream(at("theirs"));
    setenv("SLURM_CONF", at("theirs").c_str(), 1);
    setenv("SLURM_CLUSTERS", "one", 1);
    const std::vector<std::string> theirs = environment_of_squeue(0);
    const std::vector<std::string> users = environment_of_squeue(1000);
    setenv("SLURM_CONF", "/etc/passwd", 1); // root's alone
    const std::vector<std::string> roots = environment_of_squeue(0);
    std::string said;
    if (geteuid() == 0) {
        const Result<std::string> answer = ask(squeue("echo $PATH"), "77", soon_ms);
        said = answer ? *answer : answer.error().text();
    }
    for (const char *name : {"BASH_ENV", "ENV", "PYTHONPATH", "LD_LIBRARY_PATH",
                             "SLURM_CONF_SERVER", "SLURM_CONF", "SLURM_CLUSTERS"})
        unsetenv(name);
    setenv("PATH", own_path.c_str(), 1);
    const auto has = [](const std::vector<std::string> &all, const std::string &part) {
        return std::ranges::any_of(
            all, [&](const std::string &one) { return one.find(part) != std::string::npos; });
    };
    EXPECT_FALSE(has(theirs, directory_));
    EXPECT_TRUE(has(theirs, "PATH=/usr/sbin:/usr/bin:/sbin:/bin"));
    EXPECT_TRUE(has(theirs, "SLURM_CLUSTERS=one"));
    EXPECT_FALSE(has(theirs, "SLURM_CONF="));
    EXPECT_TRUE(has(roots, "SLURM_CONF=/etc/passwd"));
    EXPECT_TRUE(has(users, "SLURM_CONF=" + at("theirs")));
    EXPECT_TRUE(has(users, "PATH=" + directory_));
    if (geteuid() == 0) {
        EXPECT_EQ(said, "/usr/sbin:/usr/bin:/sbin:/bin\n");
    }
}

} // namespace
} // namespace cryo::keeper::slurm
