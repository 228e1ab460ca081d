// SPDX-License-Identifier: Apache-2.0
//
// What the end of a launcher says of the ranks.
#include "recover/subject.hpp"

#include <csignal>
#include <gtest/gtest.h>
#include <sys/wait.h>

using cryo::recover::make_subject;
using cryo::recover::Subject;

namespace {

constexpr int status_of_exit(int status)
{
    return W_EXITCODE(status, 0);
}

std::unique_ptr<Subject> job()
{
    return make_subject({.directory = "/run", .mpi = true}, {"mpirun", "-n", "2", "./app"});
}

} // namespace

TEST(Subject, LaunchersAddToTheSignalOfARank)
{
    EXPECT_EQ(job()->end_of(status_of_exit(128 + SIGKILL)), SIGKILL);
    EXPECT_EQ(job()->end_of(status_of_exit(SIGKILL)), status_of_exit(SIGKILL));
    EXPECT_EQ(job()->end_of(status_of_exit(0)), status_of_exit(0));
    EXPECT_EQ(job()->end_of(status_of_exit(128)), status_of_exit(128));
    EXPECT_EQ(job()->end_of(status_of_exit(255)), status_of_exit(255));
    EXPECT_EQ(job()->end_of(SIGSEGV), SIGSEGV);
}

TEST(Subject, ProgramsEndAsTheyEnd)
{
    const std::unique_ptr<Subject> program = make_subject({.directory = "/run"}, {"./app"});
    EXPECT_EQ(program->end_of(status_of_exit(137)), status_of_exit(137));
    EXPECT_EQ(program->end_text(7, SIGKILL), "process 7 was killed by SIGKILL");
    EXPECT_EQ(program->path_of("context.000001"), "/run/context.000001");
}

TEST(Subject, TextNamesLauncherAndRank)
{
    EXPECT_EQ(job()->end_text(7, status_of_exit(137)),
              "the launcher (7) ended with status 137: a rank was killed by SIGKILL");
    EXPECT_EQ(job()->end_text(7, SIGKILL), "the launcher (7) was killed by SIGKILL");
    EXPECT_EQ(job()->end_text(7, status_of_exit(3)), "the launcher (7) ended with status 3");
}

TEST(Subject, JobsComeFromTheirSnapshots)
{
    const std::vector<std::string> words = job()->restart_words("4", 9);
    EXPECT_TRUE(words.front().ends_with("/ompi-restart"));
    EXPECT_EQ(words.back(), "/run/context.ckpt");
    EXPECT_EQ(job()->path_of("4"), "/run/context.ckpt/4");
}
