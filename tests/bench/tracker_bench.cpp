// SPDX-License-Identifier: Apache-2.0
//
// What it costs to know which pages have changed: to find them, as a checkpoint does (capture/
// tracker.cpp), beside comparing all memory; and what the first write to each page costs a program
// whose memory is watched.
#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <optional>
#include <random>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "capture/page_table.hpp"
#include "capture/pages.hpp"
#include "ratios.hpp"

using namespace cryo;
using namespace cryo::bench;
using namespace cryo::capture;

namespace {

constexpr uint64_t kPage = 4096;
constexpr double kPagesOfGib = 262144;
constexpr double kInterval = 60; // seconds between two checkpoints

// Of Linux 5.11 and 6.7, for headers that are older.
constexpr int kUserModeOnly = 1;
constexpr uint64_t kWpAsync = 1 << 15;

// Memory of ordinary pages, and what is in it once more.
class Memory
{
  public:
    explicit Memory(uint64_t pages)
        : pages_(pages), bytes_(map(pages)), twin_(map(pages)), order_(pages)
    {
        for (uint64_t i = 0; i < pages * kPage; i += sizeof(uint64_t)) {
            const uint64_t word = random_();
            memcpy(bytes_ + i, &word, sizeof(word));
            memcpy(twin_ + i, &word, sizeof(word));
        }
        for (uint64_t i = 0; i < pages; i++)
            order_[i] = i;
    }
    ~Memory()
    {
        munmap(bytes_, pages_ * kPage);
        munmap(twin_, pages_ * kPage);
    }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;

    uint64_t pages() const { return pages_; }
    uint64_t start() const { return reinterpret_cast<uint64_t>(bytes_); }
    uint64_t end() const { return start() + pages_ * kPage; }
    image::Bytes page(uint64_t number) const { return {bytes_ + number * kPage, kPage}; }
    bool equals_twin() const { return memcmp(bytes_, twin_, pages_ * kPage) == 0; }

    // A word of so many pages, at random, in both.
    void change(uint64_t count)
    {
        for (uint64_t i = 0; i < count; i++)
            std::swap(order_[i], order_[i + random_() % (pages_ - i)]);
        for (uint64_t i = 0; i < count; i++) {
            bytes_[order_[i] * kPage]++;
            twin_[order_[i] * kPage]++;
        }
        changed_ = count;
    }
    // In every page, one after the other, and nothing else.
    void touch_all()
    {
        for (uint64_t i = 0; i < pages_; i++)
            bytes_[i * kPage]++;
    }
    void touch_twin()
    {
        for (uint64_t i = 0; i < pages_; i++)
            twin_[i * kPage]++;
    }
    // Whether the runs are the pages that were changed last.
    bool was_changed(const std::vector<Run> &runs) const
    {
        uint64_t sum = 0;
        for (const Run &run : runs)
            sum += (run.end - run.start) / kPage;
        if (sum != changed_)
            return false;
        std::vector<Run> expected;
        for (uint64_t i = 0; i < changed_; i++) {
            const uint64_t at = start() + order_[i] * kPage;
            expected.push_back({at, at + kPage});
        }
        std::ranges::sort(expected, {}, &Run::start);
        return without(expected, runs).empty();
    }

  private:
    static uint8_t *map(uint64_t pages)
    {
        void *memory = mmap(nullptr, pages * kPage, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            fmt::print(stderr, "tracker_bench: there is too little memory\n");
            exit(1);
        }
        madvise(memory, pages * kPage, MADV_NOHUGEPAGE);
        return static_cast<uint8_t *>(memory);
    }

    uint64_t pages_;
    uint8_t *bytes_;
    uint8_t *twin_;
    std::vector<uint64_t> order_;
    uint64_t changed_ = 0;
    std::mt19937_64 random_{5};
};

// As the agent and the checkpointer do it.
class Watch
{
  public:
    Watch(const Memory &memory, PageMap map) : memory_(memory), map_(std::move(map)) {}

    bool begin()
    {
        fd_.reset(
            static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly)));
        uffdio_api api = {};
        api.api = UFFD_API;
        api.features = kWpAsync;
        uffdio_register range = {};
        range.range = {memory_.start(), memory_.end() - memory_.start()};
        range.mode = UFFDIO_REGISTER_MODE_WP;
        return fd_ && ioctl(fd_.get(), UFFDIO_API, &api) == 0 &&
               ioctl(fd_.get(), UFFDIO_REGISTER, &range) == 0 && find().has_value();
    }

    // What was written since the time before, watched again from now on.
    std::optional<std::vector<Run>> find()
    {
        Result<PageMap::Written> changed = map_.protect_written(memory_.start(), memory_.end());
        if (!changed)
            return std::nullopt;
        const std::vector<Run> clean = without({{memory_.start(), memory_.end()}}, changed->own);
        // When the copy has been made, once more.
        Result<std::vector<Run>> written = map_.written(memory_.start(), memory_.end());
        if (!written || without(clean, *written).size() != clean.size())
            return std::nullopt;
        return changed->own;
    }

  private:
    const Memory &memory_;
    PageMap map_;
    Fd fd_;
};

void find(benchmark::State &state, Memory &memory, Watch &watch, uint64_t count)
{
    for (auto _ : state) {
        state.PauseTiming();
        const bool begun = watch.find().has_value();
        memory.change(count);
        state.ResumeTiming();
        const std::optional<std::vector<Run>> changed = watch.find();
        state.PauseTiming();
        if (!begun || !changed || !memory.was_changed(*changed))
            return state.SkipWithError("other pages were found than those that were changed");
        state.ResumeTiming();
    }
}

void compare(benchmark::State &state, const Memory &memory)
{
    for (auto _ : state)
        if (!memory.equals_twin())
            return state.SkipWithError("memory is not as it should be");
}

void hash(benchmark::State &state, const Memory &memory)
{
    for (auto _ : state)
        for (uint64_t i = 0; i < memory.pages(); i++)
            benchmark::DoNotOptimize(digest_of_page(memory.page(i)));
}

// `again`: nothing is protected any more.
void write(benchmark::State &state, Memory &memory, Watch &watch, bool again)
{
    for (auto _ : state) {
        state.PauseTiming();
        const bool begun = watch.find().has_value();
        if (again)
            memory.change(memory.pages());
        state.ResumeTiming();
        memory.touch_all();
        state.PauseTiming();
        memory.touch_twin();
        if (!begun)
            return state.SkipWithError("memory cannot be watched any more");
        state.ResumeTiming();
    }
}

} // namespace

int main(int argc, char **argv)
{
    Bench bench(argc, argv);
    Memory memory(bench.full() ? 65536 : 2048);
    Result<PageMap> map = PageMap::open(Proc(getpid()));
    if (!map) {
        fmt::print(stderr, "tracker_bench: {}\n", map.error().text());
        return 1;
    }
    Watch watch(memory, std::move(*map));
    if (!watch.begin()) {
        fmt::print("tracker_bench: this kernel does not tell what was written\n");
        return 0;
    }
    const std::pair<const char *, uint64_t> shares[] = {
        {"0", 0}, {"5", memory.pages() / 20}, {"100", memory.pages()}};
    for (const auto &[name, count] : shares) {
        benchmark::RegisterBenchmark(
            fmt::format("find {}", name).c_str(),
            [&, pages = count](benchmark::State &b) { find(b, memory, watch, pages); })
            ->Iterations(3);
    }
    benchmark::RegisterBenchmark("compare", [&](benchmark::State &b) {
        compare(b, memory);
    })->Iterations(3);
    benchmark::RegisterBenchmark("hash", [&](benchmark::State &b) {
        hash(b, memory);
    })->Iterations(1);
    benchmark::RegisterBenchmark("first write", [&](benchmark::State &b) {
        write(b, memory, watch, false);
    })->Iterations(1);
    benchmark::RegisterBenchmark("next write", [&](benchmark::State &b) {
        write(b, memory, watch, true);
    })->Iterations(1);
    bench.run();
    for (const auto &[name, count] : shares) {
        const bool usual = std::string_view(name) == "5";
        bench.ratio(fmt::format("changed pages, {} % of all, beside memcmp: time", name),
                    bench.time(fmt::format("find {}", name)) / bench.time("compare"),
                    usual ? std::optional(at_most(0.03)) : std::nullopt);
    }
    bench.ratio("digests of all pages beside memcmp: time",
                bench.time("hash") / bench.time("compare"), std::nullopt);
    // The faults, and finding it all, of 1 GiB that is written to in every interval.
    const double gib = kPagesOfGib / double(memory.pages());
    const double faults = bench.time("first write") - bench.time("next write");
    bench.ratio("watched, 1 GiB changed in 60 s: share of run time",
                gib * (faults + bench.time("find 100")) / kInterval, at_most(0.005));
    return bench.finish();
}
