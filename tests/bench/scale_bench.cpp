// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint costs the first daemon of a job of a hundred thousand ranks on 6,250 nodes,
// without images (tests/unit/coord/large_job.hpp): all daemons are real, and in this process. The
// times by the clock are those of all nodes on one processor, and of a first daemon on another.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <string>
#include <sys/resource.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "large_job.hpp"
#include "ratios.hpp"

using namespace cryo;
using namespace cryo::bench;
using cryo::coord::sim::Figures;
using cryo::coord::sim::LargeJob;
using cryo::coord::sim::Size;

namespace {

constexpr uint32_t kOnEach = 16;
constexpr int kTimes = 5;

double messages(const Figures &figures)
{
    return static_cast<double>(figures.to_root + figures.from_root);
}

double levels_of(uint32_t nodes)
{
    return std::log2(static_cast<double>(nodes)) / 4;
}

class Jobs
{
  public:
    explicit Jobs(std::string directory) : directory_(std::move(directory)) {}

    // The checkpoint whose processor time is the median of a few; the first one is not counted.
    Figures save(const Size &size)
    {
        const std::string where = fmt::format("{}/job-{}", directory_, next_++);
        std::vector<Figures> all;
        {
            LargeJob job(size, where);
            for (int i = 0; i <= kTimes; i++)
                all.push_back(job.checkpoint());
        }
        std::filesystem::remove_all(where);
        for (const Figures &one : all) {
            if (!one.error.empty() || one.ranks != size.nodes * size.ranks_on_each) {
                fmt::print(stderr, "scale_bench: {} nodes: {}\n", size.nodes, one.error);
                is_wrong_ = true;
            }
        }
        all.erase(all.begin());
        std::ranges::sort(all, {}, &Figures::root_seconds);
        return all[kTimes / 2];
    }
    bool is_wrong() const { return is_wrong_; }

  private:
    std::string directory_;
    int next_ = 0;
    bool is_wrong_ = false;
};

double peak_mib()
{
    rusage usage = {};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

void print_row(const Size &size, const Figures &figures)
{
    fmt::print("{:>9} {:>7} {:>10.3f} {:>12.4f} {:>12.4f} {:>9} {:>9} {:>10.0f}\n",
               size.nodes * size.ranks_on_each, size.nodes, figures.seconds, figures.root_seconds,
               figures.root_seconds - figures.loop_seconds, figures.to_root, figures.from_root,
               peak_mib());
    fflush(stdout);
}

// What the processor time of the first daemon is for.
void print_kinds(const Figures &figures)
{
    double rest = figures.loop_seconds;
    for (const auto &[kind, one] : figures.kinds) {
        fmt::print("    {:<24} {:>6} to it, {:>6} from it, {:>9.4f} s\n", kind, one.to_root,
                   one.from_root, one.seconds);
        rest -= one.seconds;
    }
    fmt::print("    {:<24} {:>42.4f} s\n", "request, timers, sockets", rest);
    fmt::print("    {:<24} {:>42.4f} s\n", "commit", figures.root_seconds - figures.loop_seconds);
    fflush(stdout);
}

void at_once(Bench &bench, Jobs &jobs)
{
    const std::vector<uint32_t> all =
        bench.full() ? std::vector<uint32_t>{65, 625, 6250} : std::vector<uint32_t>{65, 80};
    fmt::print("{:>9} {:>7} {:>10} {:>12} {:>12} {:>9} {:>9} {:>10}\n", "ranks", "nodes",
               "s, total", "s, its own", "s, commit", "to it", "from it", "MiB, peak");
    std::map<uint32_t, Figures> of;
    for (const uint32_t nodes : all) {
        const Size size = {.nodes = nodes, .ranks_on_each = kOnEach};
        of[nodes] = jobs.save(size);
        print_row(size, of[nodes]);
        print_kinds(of[nodes]);
    }
    const Size largest = {.nodes = all.back(), .ranks_on_each = kOnEach};
    const Figures &few = of.begin()->second;
    const Figures &many = of.rbegin()->second;
    // As many below each daemon as the user may choose.
    setenv("CRYO_FANOUT", "4", 1);
    const Figures narrow = jobs.save(largest);
    unsetenv("CRYO_FANOUT");
    print_row(largest, narrow);
    const std::string ranks = fmt::format("{} ranks: ", many.ranks);
    const std::string beside = fmt::format("{} beside {}: ", many.ranks, few.ranks);
    bench.ratio(ranks + "s, all nodes on one processor", many.seconds, at_most(2));
    bench.ratio(ranks + "processor s of the first daemon", many.root_seconds, at_most(0.5));
    for (const auto &[nodes, figures] : of)
        bench.ratio(fmt::format("{} ranks: messages at it / log16(nodes)", figures.ranks),
                    messages(figures) / levels_of(nodes), at_most(20));
    bench.ratio(ranks + "the same with CRYO_FANOUT=4", messages(narrow) / levels_of(largest.nodes),
                at_most(20));
    bench.ratio(beside + "messages at it", messages(many) / messages(few), at_most(2));
    bench.ratio(beside + "processor time of it", many.root_seconds / few.root_seconds, at_most(2));
    bench.ratio(beside + "s, all nodes on one processor", many.seconds / few.seconds, at_most(2));
}

// Images that have metadata beside them, and are synced, on the disk of the current directory.
void on_disk(Bench &bench, Jobs &jobs)
{
    const Figures few =
        jobs.save({.nodes = bench.full() ? 20U : 1U, .ranks_on_each = kOnEach, .images = true});
    const Figures many =
        jobs.save({.nodes = bench.full() ? 250U : 3U, .ranks_on_each = kOnEach, .images = true});
    bench.ratio(fmt::format("{} beside {}: commit on a disk", many.ranks, few.ranks),
                many.commit_seconds / few.commit_seconds, at_most(2));
}

} // namespace

int main(int argc, char **argv)
{
    setenv("CRYO_DEADLINE", "60", 0); // one processor stands in for all nodes
    Bench bench(argc, argv);
    const std::string disk = std::filesystem::current_path() / fmt::format("scale-{}", getpid());
    std::error_code ignored;
    const bool has_memory = std::filesystem::is_directory("/dev/shm", ignored);
    const std::string fast = has_memory ? fmt::format("/dev/shm/cryo-scale-{}", getpid()) : disk;
    int code = 1;
    try {
        Jobs jobs(fast);
        at_once(bench, jobs);
        Jobs disk_jobs(disk);
        on_disk(bench, disk_jobs);
        code = bench.finish();
        if (jobs.is_wrong() || disk_jobs.is_wrong())
            code = 1;
    } catch (const std::exception &error) {
        fmt::print(stderr, "scale_bench: {}\n", error.what());
    }
    std::filesystem::remove_all(fast, ignored);
    std::filesystem::remove_all(disk, ignored);
    return code;
}
