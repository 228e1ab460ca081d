// SPDX-License-Identifier: Apache-2.0
//
// How a job is found from the PID of its launcher.
#include "coord/job.hpp"

#include <cerrno>
#include <csignal>
#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

using namespace cryo::coord;
using cryo::Result;

namespace {

// A process that executes one program after another, all with the variables of a job.
class Launcher
{
  public:
    explicit Launcher(int programs)
    {
        EXPECT_EQ(pipe(ready_), 0);
        pid_ = fork();
        if (pid_ == 0) {
            std::vector<std::string> words(static_cast<size_t>(programs), "env");
            words.insert(words.end(), {"sh", "-c", "echo; exec sleep 60"});
            std::vector<char *> list;
            for (std::string &word : words)
                list.push_back(word.data());
            list.push_back(nullptr);
            const std::string job =
                "CRYO_JOB=" + std::to_string(getpid()) + "-0:secret:1:127.0.0.1";
            char *variables[] = {const_cast<char *>(job.c_str()), nullptr};
            dup2(ready_[1], STDOUT_FILENO);
            execve("/usr/bin/env", list.data(), variables);
            _exit(127);
        }
        close(ready_[1]);
    }
    ~Launcher()
    {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        close(ready_[0]);
    }
    Launcher(const Launcher &) = delete;
    Launcher &operator=(const Launcher &) = delete;

    pid_t pid() const { return pid_; }
    // Whether it has executed the last of them.
    bool is_ready() const
    {
        pollfd end = {ready_[0], POLLIN, 0};
        return poll(&end, 1, 0) != 0;
    }

  private:
    int ready_[2] = {};
    pid_t pid_ = 0;
};

} // namespace

TEST(JobOfProcess, IsNotDeniedWhileItExecutesPrograms)
{
    const Launcher launcher(500);
    int found = 0;
    // Until the first program it has the environment of this test.
    while (!job_of(launcher.pid()) && !launcher.is_ready()) {
    }
    for (bool ready = false; !ready;) {
        ready = launcher.is_ready();
        const Result<Job> job = job_of(launcher.pid());
        if (job)
            found++;
        else
            ASSERT_EQ(job.error().code(), EAGAIN) << job.error().text();
    }
    EXPECT_GT(found, 0);
}
