// SPDX-License-Identifier: Apache-2.0
//
// What the end of a launcher says of the ranks, and what a job comes from.
#include "recover/subject.hpp"

#include "../coord/store.hpp"
#include "keeper/series.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

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

std::unique_ptr<Subject> mpich_job()
{
    const std::string launcher = testing::TempDir() + "mpiexec.hydra";
    std::ofstream(launcher) << "#!/bin/sh\n";
    std::unique_ptr<Subject> made =
        make_subject({.directory = "/run", .mpi = true}, {launcher, "./app"});
    std::filesystem::remove(launcher);
    return made;
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
    const std::vector<std::string> words = program->restart_words("context.000001", 9, {"--lazy"});
    EXPECT_NE(std::ranges::find(words, "--lazy"), words.end());
    EXPECT_EQ(words.back(), "/run/context.000001");
}

TEST(Subject, TextNamesLauncherAndRank)
{
    EXPECT_EQ(job()->end_text(7, status_of_exit(137)),
              "the launcher (7) ended with status 137: a rank was killed by SIGKILL");
    EXPECT_EQ(job()->end_text(7, SIGKILL), "the launcher (7) was killed by SIGKILL");
    EXPECT_EQ(job()->end_text(7, status_of_exit(3)), "the launcher (7) ended with status 3");
}

TEST(Subject, ALauncherThatHasLostWhatItHadStartedSaysSo)
{
    const std::unique_ptr<Subject> of_mpich = mpich_job();
    EXPECT_TRUE(of_mpich->lost_control(status_of_exit(255)));
    EXPECT_TRUE(job()->lost_control(status_of_exit(205)));
    // Programs end so.
    EXPECT_FALSE(of_mpich->lost_control(status_of_exit(1)));
    EXPECT_FALSE(job()->lost_control(status_of_exit(255)));
    EXPECT_FALSE(job()->lost_control(SIGKILL));
    const std::unique_ptr<Subject> program = make_subject({.directory = "/run"}, {"./app"});
    EXPECT_FALSE(program->lost_control(status_of_exit(205)));
}

TEST(Subject, StatusesOfALauncherMayBeChosenByARank)
{
    const std::unique_ptr<Subject> of_mpich = mpich_job();
    EXPECT_TRUE(job()->may_be_chosen(status_of_exit(14)));
    EXPECT_FALSE(job()->may_be_chosen(status_of_exit(143)));
    EXPECT_FALSE(job()->may_be_chosen(SIGTERM));
    EXPECT_TRUE(of_mpich->may_be_chosen(status_of_exit(143)));
    EXPECT_TRUE(of_mpich->may_be_chosen(status_of_exit(15))); // SIGTERM, or its library's
    EXPECT_FALSE(of_mpich->may_be_chosen(SIGTERM));
}

TEST(Subject, ALauncherThatFailsByItselfSaysNothingOfTheSnapshot)
{
    for (const int status : {1, EBUSY, ENOSPC, 126, 127, 195, 213, 255})
        EXPECT_TRUE(job()->may_pass(status_of_exit(status))) << status;
    for (const int status : {EBADMSG, EIO, ENOENT, EINVAL, 128 + SIGSEGV})
        EXPECT_FALSE(job()->may_pass(status_of_exit(status))) << status;
    EXPECT_FALSE(job()->may_pass(SIGKILL));
    const std::unique_ptr<Subject> program = make_subject({.directory = "/run"}, {"./app"});
    EXPECT_TRUE(program->may_pass(status_of_exit(EBUSY)));
    EXPECT_FALSE(program->may_pass(status_of_exit(126)));
}

// MPICH's launcher ends with the number of a signal where others add 128: also with an errno.
TEST(Subject, AnErrnoIsNotTakenForASignal)
{
    const std::string directory = testing::TempDir() + "cryo-launcher." + std::to_string(getpid());
    const std::string launcher = directory + "/mpiexec.hydra";
    ASSERT_TRUE(std::filesystem::create_directory(directory));
    std::ofstream(launcher) << "#!/bin/sh\n";
    const std::unique_ptr<Subject> hydra =
        make_subject({.directory = "/run", .mpi = true}, {launcher, "./app"});
    EXPECT_EQ(hydra->end_of(status_of_exit(ENOSPC)), ENOSPC); // as a signal of this number
    for (const int error : {EAGAIN, EBUSY, EMFILE, ENFILE, ENOMEM, ENOSPC})
        EXPECT_TRUE(hydra->may_pass(status_of_exit(error))) << error;
    std::filesystem::remove_all(directory);
}

TEST(Subject, JobsComeFromTheirSnapshots)
{
    const std::vector<std::string> words = job()->restart_words("4", 9, {});
    EXPECT_TRUE(words.front().ends_with("/ompi-restart"));
    EXPECT_EQ(words.back(), "/run/context.ckpt");
    EXPECT_EQ(job()->path_of("4"), "/run/context.ckpt/4");
}

// Of a delta also what it is based on; and the node's own copy before the one that all nodes see.
TEST(Subject, ARestartReadsTheImagesOfTheNodesOwnRanks)
{
    using cryo::coord::SnapshotImage;
    const cryo::coord::Store store;
    const std::string own = cryo::keeper::reference_name;
    const std::string level = store.at("level") / cryo::coord::rank_directory(0);
    for (const int seq : {0, 1}) {
        cryo::Result<cryo::coord::SnapshotWriter> writer = store.begin(own, "412-0", "s1");
        ASSERT_TRUE(writer) << writer.error().text();
        std::vector<SnapshotImage> images = cryo::coord::Store::put_images(*writer);
        images[0].node = "n1";
        images[1].node = "n2";
        if (seq == 1) {
            images[0].needs = {0};
            images[0].local = level;
            images[0].checksum = std::string(32, 'a');
        }
        const cryo::Result<void> done = writer->commit(images);
        ASSERT_TRUE(done) << done.error().text();
    }
    const std::string file = cryo::coord::image_name(500);
    const auto shared = [&](const char *seq) {
        return store.at(own) / seq / cryo::coord::rank_directory(0) / file;
    };
    setenv("CRYO_NODE", "n1", 1);
    const std::unique_ptr<Subject> of_job =
        make_subject({.directory = store.base(), .mpi = true}, {"mpirun", "./app"}, "s1");
    cryo::Result<cryo::recover::Reads> reads = of_job->reads("1");
    ASSERT_TRUE(reads) << reads.error().text();
    EXPECT_EQ(reads->files, (std::vector<std::string>{shared("1"), shared("0")}));
    EXPECT_EQ(reads->other_nodes, std::set<std::string>{"n2"});
    store.write("level/" + cryo::coord::rank_directory(0) + "/" + file, "image 1");
    reads = of_job->reads("1");
    ASSERT_TRUE(reads) << reads.error().text();
    EXPECT_EQ(reads->files, (std::vector<std::string>{level + "/" + file, shared("0")}));
    EXPECT_EQ(of_job->reads("7").error().code(), ENOENT);
    unsetenv("CRYO_NODE");
}
