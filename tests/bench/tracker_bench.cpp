// SPDX-License-Identifier: Apache-2.0
//
// The cost of knowing which pages have changed: finding them, as a checkpoint does (see
// capture/memory/tracker.cpp), compared with comparing all memory; and the cost of the first write
// to each page for a watched program. That program is a separate process, as for a checkpoint:
// protecting pages of a running process interrupts other processors every few pages.
#include <algorithm>
#include <cstring>
#include <fcntl.h>
#include <fmt/format.h>
#include <linux/userfaultfd.h>
#include <optional>
#include <random>
#include <span>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/memory/page_table.hpp"
#include "capture/memory/pages.hpp"
#include "ratios.hpp"

using namespace cryo;
using namespace cryo::bench;
using namespace cryo::capture;

namespace {

constexpr uint64_t kPage = 4096;
constexpr double kPagesOfGib = 262144;
constexpr double kInterval = 60; // seconds between two checkpoints

// From Linux 5.11 and 6.7, for older headers.
constexpr int kUserModeOnly = 1;
constexpr uint64_t kWpAsync = 1 << 15;

// Memory of ordinary pages, and a second copy of its contents, in the watched program. Both use the
// same order in which pages are changed.
class Memory
{
  public:
    explicit Memory(uint64_t pages)
        : pages_(pages), bytes_(map(pages * kPage, MAP_PRIVATE)),
          twin_(map(pages * kPage, MAP_PRIVATE)),
          order_(reinterpret_cast<uint64_t *>(map(pages * sizeof(uint64_t), MAP_SHARED)), pages)
    {
        for (uint64_t i = 0; i < pages; i++)
            order_[i] = i;
    }
    void fill()
    {
        for (uint64_t i = 0; i < pages_ * kPage; i += sizeof(uint64_t)) {
            const uint64_t word = random_();
            memcpy(bytes_ + i, &word, sizeof(word));
            memcpy(twin_ + i, &word, sizeof(word));
        }
    }

    uint64_t pages() const { return pages_; }
    uint64_t start() const { return reinterpret_cast<uint64_t>(bytes_); }
    uint64_t end() const { return start() + pages_ * kPage; }
    bool equals_twin() const { return memcmp(bytes_, twin_, pages_ * kPage) == 0; }
    void hash() const
    {
        for (uint64_t i = 0; i < pages_; i++)
            benchmark::DoNotOptimize(digest_of_page({bytes_ + i * kPage, kPage}));
    }

    // Changes a word in each of `count` random pages, in both copies.
    void change(uint64_t count)
    {
        for (uint64_t i = 0; i < count; i++)
            std::swap(order_[i], order_[i + random_() % (pages_ - i)]);
        for (uint64_t i = 0; i < count; i++) {
            bytes_[order_[i] * kPage]++;
            twin_[order_[i] * kPage]++;
        }
    }
    // Changes every page in turn, and nothing else.
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
    // Whether the runs are exactly the `count` pages that were changed last.
    bool was_changed(uint64_t count, const std::vector<Run> &runs) const
    {
        if (size_of(runs) != count * kPage)
            return false;
        std::vector<Run> expected;
        for (uint64_t i = 0; i < count; i++) {
            const uint64_t at = start() + order_[i] * kPage;
            expected.push_back({at, at + kPage});
        }
        std::ranges::sort(expected, {}, &Run::start);
        return without(expected, runs).empty();
    }

  private:
    static uint8_t *map(uint64_t size, int shared)
    {
        void *memory = mmap(nullptr, size, PROT_READ | PROT_WRITE, shared | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            fmt::print(stderr, "tracker_bench: there is too little memory\n");
            exit(1);
        }
        madvise(memory, size, MADV_NOHUGEPAGE);
        return static_cast<uint8_t *>(memory);
    }

    uint64_t pages_;
    uint8_t *bytes_;
    uint8_t *twin_;
    std::span<uint64_t> order_;
    std::mt19937_64 random_{5};
};

// The program: obeys one order after the other, and ends when its orders end.
class Program
{
  public:
    struct Order {
        char what;
        uint64_t count;
    };

    explicit Program(Memory &memory)
    {
        int to[2];
        int from[2];
        if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0)
            return;
        pid_ = fork();
        if (pid_ == 0) {
            close(to[1]);
            run(memory, to[0], from[1]);
        }
        close(to[0]);
        close(from[1]);
        orders_.reset(to[1]);
        answers_.reset(from[0]);
    }
    ~Program()
    {
        orders_.reset();
        if (pid_ > 0)
            waitpid(pid_, nullptr, 0);
    }
    Program(const Program &) = delete;
    Program &operator=(const Program &) = delete;

    pid_t pid() const { return pid_; }
    bool tell(char what, uint64_t count = 0) const
    {
        const Order order = {what, count};
        char answer = 0;
        return write(orders_.get(), &order, sizeof(order)) == sizeof(order) &&
               read(answers_.get(), &answer, 1) == 1 && answer == 'y';
    }

  private:
    [[noreturn]] static void run(Memory &memory, int orders, int answers)
    {
        Fd watcher;
        Order order;
        while (read(orders, &order, sizeof(order)) == sizeof(order)) {
            bool good = true;
            switch (order.what) {
            case 'f':
                memory.fill();
                break;
            case 'w':
                good = watch(memory, watcher);
                break;
            case 'c':
                memory.change(order.count);
                break;
            case 'e':
                good = memory.equals_twin();
                break;
            case 'h':
                memory.hash();
                break;
            case 'a':
                memory.touch_all();
                break;
            default:
                memory.touch_twin();
            }
            const char answer = good ? 'y' : 'n';
            if (write(answers, &answer, 1) != 1)
                break;
        }
        _exit(0);
    }
    static bool watch(const Memory &memory, Fd &fd)
    {
        fd.reset(
            static_cast<int>(syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | kUserModeOnly)));
        uffdio_api api = {};
        api.api = UFFD_API;
        api.features = kWpAsync;
        uffdio_register range = {};
        range.range = {memory.start(), memory.end() - memory.start()};
        range.mode = UFFDIO_REGISTER_MODE_WP;
        return fd && ioctl(fd.get(), UFFDIO_API, &api) == 0 &&
               ioctl(fd.get(), UFFDIO_REGISTER, &range) == 0;
    }

    pid_t pid_ = -1;
    Fd orders_, answers_;
};

// Watches the memory as the checkpointer does.
class Watch
{
  public:
    Watch(const Memory &memory, PageMap map) : memory_(memory), map_(std::move(map)) {}

    // The pages written since the last call, which are watched again from now on.
    std::optional<std::vector<Run>> find()
    {
        Result<PageMap::Written> changed = map_.protect_written(memory_.start(), memory_.end());
        if (!changed)
            return std::nullopt;
        const std::vector<Run> clean = without({{memory_.start(), memory_.end()}}, changed->own);
        // Once more, as after the copy has been made.
        Result<std::vector<Run>> written = map_.written(memory_.start(), memory_.end());
        if (!written || without(clean, *written).size() != clean.size())
            return std::nullopt;
        return changed->own;
    }

  private:
    const Memory &memory_;
    PageMap map_;
};

struct Parts {
    Memory &memory;
    Program &program;
    Watch &watch;
};

void find(benchmark::State &state, const Parts &on, uint64_t count)
{
    for (auto _ : state) {
        state.PauseTiming();
        const bool begun = on.watch.find().has_value() && on.program.tell('c', count);
        state.ResumeTiming();
        const std::optional<std::vector<Run>> changed = on.watch.find();
        state.PauseTiming();
        if (!begun || !changed || !on.memory.was_changed(count, *changed))
            return state.SkipWithError("other pages were found than those that were changed");
        state.ResumeTiming();
    }
}

void tell(benchmark::State &state, const Program &program, char what)
{
    for (auto _ : state)
        if (!program.tell(what))
            return state.SkipWithError("memory is not as it should be");
}

// `again`: no page is protected any more.
void write(benchmark::State &state, const Parts &on, bool again)
{
    for (auto _ : state) {
        state.PauseTiming();
        const bool begun =
            on.watch.find().has_value() && (!again || on.program.tell('c', on.memory.pages()));
        state.ResumeTiming();
        const bool written = on.program.tell('a');
        state.PauseTiming();
        if (!begun || !written || !on.program.tell('t'))
            return state.SkipWithError("memory cannot be watched any more");
        state.ResumeTiming();
    }
}

} // namespace

int main(int argc, char **argv)
{
    Bench bench(argc, argv);
    Memory memory(bench.full() ? 262144 : 2048); // larger than a cache
    Program program(memory);
    Result<PageMap> map = PageMap::open(Proc(program.pid()));
    if (!map || !program.tell('f')) {
        fmt::print(stderr, "tracker_bench: {}\n", map ? "no program" : map.error().text());
        return 1;
    }
    Watch watch(memory, std::move(*map));
    if (!program.tell('w') || !watch.find()) {
        fmt::print("tracker_bench: this kernel does not tell what was written\n");
        return 0;
    }
    const Parts on = {memory, program, watch};
    const std::pair<const char *, uint64_t> shares[] = {
        {"0", 0}, {"5", memory.pages() / 20}, {"100", memory.pages()}};
    for (const auto &[name, count] : shares) {
        benchmark::RegisterBenchmark(
            fmt::format("find {}", name).c_str(),
            [&, pages = count](benchmark::State &b) { find(b, on, pages); })
            ->Iterations(3);
    }
    benchmark::RegisterBenchmark("compare", [&](benchmark::State &b) {
        tell(b, program, 'e');
    })->Iterations(3);
    benchmark::RegisterBenchmark("hash", [&](benchmark::State &b) {
        tell(b, program, 'h');
    })->Iterations(1);
    benchmark::RegisterBenchmark("first write", [&](benchmark::State &b) {
        write(b, on, false);
    })->Iterations(1);
    benchmark::RegisterBenchmark("next write", [&](benchmark::State &b) {
        write(b, on, true);
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
    // The faults, and finding all of 1 GiB, if it is written in every interval.
    const double gib = kPagesOfGib / double(memory.pages());
    const double faults = bench.time("first write") - bench.time("next write");
    bench.ratio("watched, 1 GiB changed in 60 s: share of run time",
                gib * (faults + bench.time("find 100")) / kInterval, at_most(0.005));
    return bench.finish();
}
