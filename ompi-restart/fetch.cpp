// SPDX-License-Identifier: Apache-2.0
#include "fetch.hpp"

#include "launcher_line.hpp"

#include "base/fd.hpp"
#include "cli/command.hpp"
#include "coord/nodes_to_ask.hpp"
#include "coord/patience.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

using cryo::coord::Snapshot;
using cryo::coord::SnapshotStore;

namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t most_at_once = 16;
constexpr std::chrono::milliseconds between_looks{50};
constexpr std::chrono::seconds between_measures{1};
constexpr std::chrono::seconds grace{5}; // for a launcher to end what it has started

struct Launched {
    std::string node;
    pid_t pid;
};

// In the child. What it prints are messages, as this command's output is that of the job.
[[noreturn]] void become_launcher(const std::vector<std::string> &words)
{
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    const cryo::Fd null(open("/dev/null", O_RDONLY | O_CLOEXEC));
    dup2(null.get(), STDIN_FILENO);
    dup2(STDERR_FILENO, STDOUT_FILENO);
    unsetenv("LD_PRELOAD");
    std::vector<char *> arguments;
    for (const std::string &word : words)
        arguments.push_back(const_cast<char *>(word.c_str())); // NOLINT: execvp's type
    arguments.push_back(nullptr);
    execvp(arguments[0], arguments.data());
    cryo::cli::say("ompi-restart", fmt::format("{}: {}", words.front(), strerror(errno)));
    _exit(127);
}

class Fetching
{
  public:
    Fetching(const SnapshotStore &store, const Snapshot &snapshot, const Options &options)
        : store_(store), snapshot_(snapshot), options_(options)
    {}
    void run(const std::vector<std::string> &nodes)
    {
        auto next = nodes.begin();
        while (next != nodes.end() || !launched_.empty()) {
            while (next != nodes.end() && launched_.size() < most_at_once)
                launch(*next++);
            collect();
            if (is_silent())
                give_up();
            if (!launched_.empty())
                std::this_thread::sleep_for(between_looks);
        }
    }

  private:
    void say(const std::string &text) const { cryo::cli::say(options_.command, text); }

    void launch(const std::string &node)
    {
        const std::vector<std::string> words = bringing_line(store_, snapshot_, options_, node);
        say(fmt::format("node {} is asked for its images", node));
        const pid_t child = fork();
        if (child == 0)
            become_launcher(words);
        if (child < 0)
            say(fmt::format("node {} cannot be asked: {}", node, strerror(errno)));
        else
            launched_.push_back({node, child});
        moved_ = Clock::now();
    }

    void collect()
    {
        std::erase_if(launched_, [&](const Launched &one) {
            int status = 0;
            if (waitpid(one.pid, &status, WNOHANG) != one.pid)
                return false;
            if (status != 0)
                say(fmt::format("node {} has not brought all of its images; "
                                "`ompi-restart --bring` there says why",
                                one.node));
            return true;
        });
    }

    // A directory of a file system that nodes share is not looked into all the time.
    bool is_silent()
    {
        if (Clock::now() < next_look_)
            return false;
        next_look_ = Clock::now() + between_measures;
        const uint64_t bytes = cryo::coord::bytes_brought(store_, snapshot_);
        if (bytes != bytes_) {
            bytes_ = bytes;
            moved_ = Clock::now();
        }
        return !launched_.empty() &&
               Clock::now() - moved_ > cryo::coord::longest_silence() * cryo::coord::image_times;
    }

    void give_up()
    {
        for (const Launched &one : launched_) {
            say(fmt::format("node {} has brought nothing for {}: it is given up", one.node,
                            cryo::coord::in_seconds(cryo::coord::longest_silence() *
                                                    cryo::coord::image_times)));
            kill(one.pid, SIGTERM);
        }
        const auto until = Clock::now() + grace;
        while (!launched_.empty() && Clock::now() < until) {
            std::this_thread::sleep_for(between_looks);
            collect();
        }
        for (const Launched &one : launched_) {
            kill(one.pid, SIGKILL);
            waitpid(one.pid, nullptr, 0);
        }
        launched_.clear();
    }

    const SnapshotStore &store_;
    const Snapshot &snapshot_;
    const Options &options_;
    std::vector<Launched> launched_;
    uint64_t bytes_ = 0;
    Clock::time_point moved_;
    Clock::time_point next_look_;
};

} // namespace

void fetch(const SnapshotStore &store, const Snapshot &snapshot, const Options &options,
           const std::vector<std::string> &nodes)
{
    Fetching(store, snapshot, options).run(nodes);
}
