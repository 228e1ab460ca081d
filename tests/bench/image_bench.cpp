// SPDX-License-Identifier: Apache-2.0
//
// The image library: writing, packing, verified reading. Files are made in the current directory.
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <random>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "image/reader.hpp"
#include "image/writer.hpp"
#include "ratios.hpp"
#include "states.hpp"

using namespace cryo;
using namespace cryo::image;
using namespace cryo::bench;

namespace {

constexpr size_t kBlock = 4 << 20;
constexpr uint32_t kObject = 1;
const char *const kFile = "cryo-bench-file";

// Page-aligned incompressible bytes.
class Noise
{
  public:
    explicit Noise(size_t size) : size_(size)
    {
        void *p = mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED)
            throw std::bad_alloc();
        data_ = static_cast<uint8_t *>(p);
        std::mt19937_64 random(7);
        for (size_t i = 0; i < size; i += 8) {
            uint64_t word = random();
            memcpy(data_ + i, &word, sizeof word);
        }
    }
    ~Noise() { munmap(data_, size_); }
    Noise(const Noise &) = delete;
    Noise &operator=(const Noise &) = delete;

    MutableBytes bytes() const { return {data_, size_}; }

  private:
    size_t size_;
    uint8_t *data_;
};

// Puts bytes into a file in memory, for dd to read.
std::string in_memory(Bytes bytes)
{
    static Fd fd(memfd_create("source", 0));
    if (!fd || ftruncate(fd.get(), 0) ||
        pwrite(fd.get(), bytes.data(), bytes.size(), 0) != ssize_t(bytes.size()))
        return "";
    return fmt::format("/proc/{}/fd/{}", getpid(), fd.get());
}

template <class F>
void measure(benchmark::State &state, F &&work)
{
    double cpu = 0;
    for (auto _ : state) {
        state.PauseTiming();
        std::filesystem::remove(kFile);
        state.ResumeTiming();
        double before = cpu_seconds();
        bool good = work();
        cpu += cpu_seconds() - before;
        if (!good) {
            state.SkipWithError("could not write");
            return;
        }
    }
    state.counters["cpu"] = cpu / double(state.iterations());
}

bool run_dd(const std::string &source)
{
    std::string in = "if=" + source;
    std::string out = std::string("of=") + kFile;
    const char *words[] = {"dd",           in.c_str(),   out.c_str(),   "bs=4M",
                           "oflag=direct", "conv=fsync", "status=none", nullptr};
    pid_t pid;
    int status;
    return posix_spawnp(&pid, "dd", nullptr, nullptr, const_cast<char **>(words), environ) == 0 &&
           waitpid(pid, &status, 0) == pid && status == 0;
}

bool write_buffered(Bytes bytes)
{
    Fd fd(open(kFile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
    for (; fd && !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kBlock)))
        if (size_t n = std::min(bytes.size(), kBlock);
            write(fd.get(), bytes.data(), n) != ssize_t(n))
            return false;
    return fd && fdatasync(fd.get()) == 0;
}

// Only the writes of the image writer's sink: no copy, no checksum.
bool write_sink(MutableBytes bytes)
{
    auto sink = FileSink::create(kFile);
    if (!sink)
        return false;
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), kBlock))) {
        iovec piece{bytes.data(), std::min(bytes.size(), kBlock)};
        if (!(*sink)->write(std::span(&piece, 1)))
            return false;
    }
    return bool((*sink)->commit());
}

bool write_image(const std::string &path, Bytes bytes, Packing packing)
{
    auto sink = FileSink::create(path, {.existing = Existing::replace});
    auto writer = sink ? ImageWriter::create(std::move(*sink), {.packing = packing}) : sink.error();
    return writer && (*writer)->add_pages(kObject, 0, bytes) && (*writer)->commit();
}

bool holds(const std::string &path, Bytes bytes)
{
    auto image = Image::open(path);
    std::vector<uint8_t> found(bytes.size());
    return image && (*image)->read_pages(kObject, 0, found) &&
           memcmp(found.data(), bytes.data(), bytes.size()) == 0;
}

void register_writing(const Noise &noise, const std::string &source)
{
    auto add = [](const char *name, auto work) {
        benchmark::RegisterBenchmark(name, [work](benchmark::State &s) {
            measure(s, work);
        })->Iterations(1);
    };
    add("dd", [source] { return run_dd(source); });
    add("buffered", [&noise] { return write_buffered(noise.bytes()); });
    add("sink", [&noise] { return write_sink(noise.bytes()); });
    add("image", [&noise] { return write_image(kFile, noise.bytes(), Packing::raw); });
}

void report_writing(Bench &bench)
{
    bench.ratio("raw image beside dd oflag=direct bs=4M: speed",
                bench.time("dd") / bench.time("image"), at_least(0.9));
    double buffered = bench.counter("buffered", "cpu");
    bench.ratio("CPU time beside write + fdatasync: without checksums",
                bench.counter("sink", "cpu") / buffered, at_most(0.1));
    bench.ratio("CPU time beside write + fdatasync: whole image",
                bench.counter("image", "cpu") / buffered, at_most(0.35));
}

// Packs in packages as the writer does; unpacking must give the input back.
void pack(benchmark::State &state, const State &memory, Packing packing)
{
    constexpr size_t kPackage = kMaxPackageBlocks * kPageSize;
    Packer packer(packing);
    size_t stored = 0;
    for (auto _ : state) {
        stored = 0;
        for (size_t at = 0; at < memory.bytes.size(); at += kPackage)
            stored += packer.pack(Bytes(memory.bytes).subspan(at, kPackage)).bytes.size();
    }
    Unpacker unpacker;
    std::vector<uint8_t> back(kPackage);
    for (size_t at = 0; at < memory.bytes.size(); at += kPackage) {
        Bytes package = Bytes(memory.bytes).subspan(at, kPackage);
        auto packed = packer.pack(package);
        if (!unpacker.unpack(packed.codec, packed.bytes, back) ||
            memcmp(back.data(), package.data(), kPackage) != 0)
            state.SkipWithError("what was packed unpacks to something else");
    }
    state.counters["ratio"] = double(memory.bytes.size()) / double(stored);
}

constexpr std::pair<Packing, const char *> kPackings[] = {{Packing::zstd, "zstd -1"},
                                                          {Packing::shuffle_lz4, "shuffle+lz4"},
                                                          {Packing::automatic, "automatic"}};

void register_packing(const std::vector<State> &states)
{
    for (const State &s : states)
        for (auto [packing, name] : kPackings)
            benchmark::RegisterBenchmark(
                (s.name + " " + name).c_str(),
                [&s, packing = packing](benchmark::State &b) { pack(b, s, packing); });
}

void report_packing(Bench &bench, const std::vector<State> &states)
{
    for (const char *name : {"shuffle+lz4", "automatic"}) {
        bool judged = name == std::string("shuffle+lz4");
        auto target = [&](double least) {
            return judged ? std::optional(at_least(least)) : std::nullopt;
        };
        std::vector<double> speeds;
        std::vector<double> ratios;
        for (const State &s : states) {
            std::string zstd = s.name + " zstd -1";
            std::string ours = s.name + " " + name;
            double speed = bench.time(zstd) / bench.time(ours);
            double packed = bench.counter(ours, "ratio");
            double ratio = packed / bench.counter(zstd, "ratio");
            bool numerical = s.name != "objects";
            bench.ratio(fmt::format("{} beside zstd -1, {}: speed", name, s.name), speed,
                        numerical ? target(1.25) : std::nullopt);
            bench.ratio(fmt::format("{} beside zstd -1, {}: ratio ({:.2f})", name, s.name, packed),
                        ratio, std::nullopt);
            if (!numerical)
                continue;
            speeds.push_back(speed);
            ratios.push_back(ratio);
        }
        bench.ratio(fmt::format("{} beside zstd -1: speed, mean", name), geometric_mean(speeds),
                    target(1.5));
        bench.ratio(fmt::format("{} beside zstd -1: ratio, mean", name), geometric_mean(ratios),
                    target(1));
    }
}

// Every package is verified before its bytes are returned.
void read_verified(benchmark::State &state, Image &image, Bytes expected)
{
    std::vector<uint8_t> buffer(std::min(kBlock, expected.size()));
    for (auto _ : state)
        for (size_t at = 0; at < expected.size(); at += buffer.size())
            if (!image.read_pages(kObject, at / kPageSize, buffer)) {
                state.SkipWithError("could not read");
                return;
            }
    if (memcmp(buffer.data(), expected.last(buffer.size()).data(), buffer.size()) != 0)
        state.SkipWithError("what was read is not what was written");
}

void copy(benchmark::State &state, Bytes from)
{
    std::vector<uint8_t> buffer(std::min(kBlock, from.size()));
    for (auto _ : state)
        for (size_t at = 0; at < from.size(); at += buffer.size()) {
            memcpy(buffer.data(), from.data() + at, buffer.size());
            benchmark::ClobberMemory();
        }
}

} // namespace

int main(int argc, char **argv)
{
    Bench bench(argc, argv);
    const size_t written = bench.full() ? size_t(512) << 20 : size_t(16) << 20;
    const size_t read = bench.full() ? size_t(256) << 20 : size_t(16) << 20;
    const size_t packed = bench.full() ? size_t(16) << 20 : size_t(1) << 20;

    Noise noise(written);
    std::string source = in_memory(noise.bytes());
    std::string stored = access("/dev/shm", W_OK) == 0 ? "/dev/shm/cryo-bench-image" : "image";
    stored += fmt::format("-{}", getpid());
    Bytes in_image = noise.bytes().first(read);
    auto states = make_states(packed);
    if (source.empty() || !write_image(stored, in_image, Packing::raw) ||
        !holds(stored, in_image)) {
        fmt::print(stderr, "image_bench: {}: an image did not come back as it was\n", stored);
        std::filesystem::remove(stored);
        return 1;
    }
    auto image = Image::open(stored, {.access = Access::map});
    std::filesystem::remove(stored);
    if (!image) {
        fmt::print(stderr, "image_bench: {}\n", image.error().text());
        return 1;
    }

    register_writing(noise, source);
    register_packing(states);
    benchmark::RegisterBenchmark("read",
                                 [&](benchmark::State &s) { read_verified(s, **image, in_image); });
    benchmark::RegisterBenchmark("memcpy", [&](benchmark::State &s) { copy(s, in_image); });
    bench.run();
    std::filesystem::remove(kFile);

    report_writing(bench);
    report_packing(bench, states);
    bench.ratio("verified read beside memcpy: speed", bench.time("memcpy") / bench.time("read"),
                std::nullopt);
    bench.ratio("verified read, GB/s", double(read) / bench.time("read") / 1e9, at_least(5));
    return bench.finish();
}
