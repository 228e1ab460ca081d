// SPDX-License-Identifier: Apache-2.0
//
// Versions of files: how much each way of choosing bases writes and needs, the size and access cost
// of packages, the speed of the codecs compared with gzip. Files are made in the current directory.
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <lz4.h>
#include <random>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <zstd.h>

#include "delta/service.hpp"
#include "ratios.hpp"
#include "states.hpp"

using namespace cryo;
using namespace cryo::bench;
using namespace cryo::delta;
using namespace cryo::image;

namespace {

constexpr uint32_t kObject = 1;
constexpr uint32_t kVersions = 25;

// A private directory, on a memory file system if possible.
class Scratch
{
  public:
    Scratch()
        : path_(std::filesystem::path(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".") /
                fmt::format("cryo-delta-bench-{}", getpid()))
    {
        std::filesystem::create_directories(path_);
    }
    ~Scratch() { std::filesystem::remove_all(path_); }
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    std::string operator/(const std::string &name) const { return path_ / name; }

  private:
    std::filesystem::path path_;
};

[[noreturn]] void wrong(const std::string &what)
{
    fmt::print(stderr, "delta_bench: {}\n", what);
    exit(1);
}

// The program of docs/delta.md: it rewrites the same blocks between all versions, and also fills
// new ones in the first versions.
class Program
{
  public:
    explicit Program(size_t hot) : hot_(hot), bytes_(6 * hot * kPageSize)
    {
        for (size_t i = 0; i < bytes_.size() / kPageSize; i++)
            change(i);
    }
    const std::vector<uint8_t> &version(uint32_t t)
    {
        for (size_t i = 0; i < hot_; i++)
            change(i);
        if (t <= 7)
            for (size_t i = 0; i < hot_ / 10; i++)
                change(hot_ + t * (hot_ / 10) + i);
        return bytes_;
    }

  private:
    void change(size_t block)
    {
        for (size_t i = 0; i < kPageSize; i += 8) {
            uint64_t word = random_();
            memcpy(bytes_.data() + block * kPageSize + i, &word, sizeof word);
        }
    }

    size_t hot_;
    std::mt19937_64 random_{3};
    std::vector<uint8_t> bytes_;
};

struct Outcome {
    double written = 0; // bytes of all deltas
    size_t most_images = 0;
};

Outcome save_versions(DeltaMode mode, size_t hot)
{
    Scratch dir;
    Program program(hot);
    Outcome out;
    for (uint32_t t = 1; t <= kVersions; t++) {
        const auto &bytes = program.version(t);
        Fd fd(open((dir / "file").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
        if (!fd || write(fd.get(), bytes.data(), bytes.size()) != ssize_t(bytes.size()))
            wrong("a version could not be written");
        auto service = Service::open(dir / "service", Service::Use::create);
        if (!service)
            wrong(service.error().text());
        Settings settings = (*service)->state().settings;
        settings.policy = {.mode = mode, .most_images = kMaxDeltaDepth};
        auto added = (*service)->add(
            {.file = dir / "file", .image = dir / fmt::format("d{}", t), .settings = settings});
        if (!added)
            wrong(added.error().text());
        std::vector<uint32_t> needs;
        for (const Entry *e : (*service)->state().chain(*added))
            needs.insert(needs.begin(), e->number);
        if (mode == DeltaMode::adaptive && t > 1 &&
            needs != (t <= 7 ? std::vector<uint32_t>{1, t} : std::vector<uint32_t>{1, 7, t}))
            wrong(fmt::format("version {} needs other images than it should", t));
        out.most_images = std::max(out.most_images, needs.size());
        out.written += t > 1 ? double(added->stored) : 0;
    }
    return out;
}

void report_bases(Bench &bench)
{
    size_t hot = bench.full() ? 1000 : 100;
    Outcome incremental = save_versions(DeltaMode::incremental, hot);
    Outcome differential = save_versions(DeltaMode::differential, hot);
    Outcome adaptive = save_versions(DeltaMode::adaptive, hot);
    bench.ratio("25 versions, bytes beside incremental: adaptive",
                adaptive.written / incremental.written, at_most(1.1));
    bench.ratio("25 versions, bytes beside incremental: differential",
                differential.written / incremental.written, std::nullopt);
    bench.ratio("25 versions, images for a restore: adaptive", double(adaptive.most_images),
                at_most(3));
    bench.ratio("25 versions, images for a restore: incremental", double(incremental.most_images),
                std::nullopt);
}

// One codec, applied to packages and to the whole.
struct Whole {
    const char *name;
    Packing packing;
    std::vector<uint8_t> (*pack)(Bytes);
    bool (*unpack)(Bytes, MutableBytes);
};

std::vector<uint8_t> zstd_whole(Bytes in)
{
    std::vector<uint8_t> out(ZSTD_compressBound(in.size()));
    out.resize(ZSTD_compress(out.data(), out.size(), in.data(), in.size(), 1));
    return out;
}

bool unzstd_whole(Bytes in, MutableBytes out)
{
    return ZSTD_decompress(out.data(), out.size(), in.data(), in.size()) == out.size();
}

std::vector<uint8_t> lz4_whole(Bytes in)
{
    std::vector<uint8_t> out(size_t(LZ4_compressBound(int(in.size()))));
    out.resize(size_t(LZ4_compress_default(reinterpret_cast<const char *>(in.data()),
                                           reinterpret_cast<char *>(out.data()), int(in.size()),
                                           int(out.size()))));
    return out;
}

bool unlz4_whole(Bytes in, MutableBytes out)
{
    return LZ4_decompress_safe(reinterpret_cast<const char *>(in.data()),
                               reinterpret_cast<char *>(out.data()), int(in.size()),
                               int(out.size())) == int(out.size());
}

constexpr Whole kCodecs[] = {{"zstd", Packing::zstd, zstd_whole, unzstd_whole},
                             {"lz4", Packing::lz4, lz4_whole, unlz4_whole}};

// A state stored as an image of packages and as one compressed piece.
struct Stored {
    std::string name;
    Bytes bytes;
    std::vector<uint8_t> whole;
    const Whole *codec = nullptr;
    std::unique_ptr<Image> image = {};
    double packages = 0;       // bytes
    mutable uint64_t page = 0; // last page that was read
};

Stored store(const Scratch &dir, const bench::State &state, const Whole &codec)
{
    Stored out{.name = fmt::format("{}, {}", codec.name, state.name),
               .bytes = state.bytes,
               .whole = codec.pack(state.bytes),
               .codec = &codec};
    std::string path = dir / "image";
    auto sink = FileSink::create(path, {.existing = Existing::replace, .sync = false});
    auto writer = sink ? ImageWriter::create(std::move(*sink),
                                             {.packing = codec.packing, .find_zero_pages = false})
                       : sink.error();
    auto done = writer && (*writer)->add_pages(kObject, 0, state.bytes)
                    ? (*writer)->commit()
                    : Error(EIO, "an image could not be written");
    auto image = done ? Image::open(path, {.access = Access::map}) : done.error();
    if (!image)
        wrong(image.error().text());
    out.packages = double(done->stored);
    out.image = std::move(*image);
    return out;
}

void one_block(benchmark::State &state, const Stored &stored)
{
    uint64_t &page = stored.page;
    std::vector<uint8_t> block(kPageSize);
    for (auto _ : state) {
        page = (page + kMaxPackageBlocks + 3) %
               (stored.bytes.size() / kPageSize); // a different package each time
        uint64_t before = stored.image->packages_loaded();
        if (!stored.image->read_pages(kObject, page, block) ||
            stored.image->packages_loaded() - before != 1 ||
            memcmp(block.data(), stored.bytes.data() + page * kPageSize, kPageSize) != 0)
            return state.SkipWithError("one block is not one package, or another block");
    }
}

void whole_file(benchmark::State &state, const Stored &stored)
{
    std::vector<uint8_t> all(stored.bytes.size());
    for (auto _ : state)
        if (!stored.codec->unpack(stored.whole, all))
            return state.SkipWithError("could not unpack");
}

bool run_gzip(const std::string &from)
{
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, from.c_str(), O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
    const char *words[] = {"gzip", "-1", "-c", nullptr};
    pid_t pid;
    int status;
    bool good =
        posix_spawnp(&pid, "gzip", &actions, nullptr, const_cast<char **>(words), environ) == 0 &&
        waitpid(pid, &status, 0) == pid && status == 0;
    posix_spawn_file_actions_destroy(&actions);
    return good;
}

void gzip(benchmark::State &state, const std::string &path)
{
    for (auto _ : state)
        if (!run_gzip(path))
            return state.SkipWithError("gzip failed");
}

void pack(benchmark::State &state, Bytes bytes)
{
    constexpr size_t kPackage = kMaxPackageBlocks * kPageSize;
    Packer packer(Packing::shuffle_lz4);
    for (auto _ : state)
        for (size_t at = 0; at < bytes.size(); at += kPackage)
            benchmark::DoNotOptimize(packer.pack(bytes.subspan(at, kPackage)));
}

void report(Bench &bench, const std::vector<bench::State> &states,
            const std::vector<Stored> &stored)
{
    for (const Whole &codec : kCodecs) {
        std::vector<double> sizes;
        std::vector<double> speeds;
        for (const Stored &s : stored) {
            if (s.codec != &codec)
                continue;
            sizes.push_back(s.packages / double(s.whole.size()));
            speeds.push_back(bench.time(s.name + " whole") / bench.time(s.name + " block"));
        }
        bench.ratio(fmt::format("packages beside whole file, {}: size, mean", codec.name),
                    geometric_mean(sizes), at_most(1.1));
        bench.ratio(fmt::format("packages beside whole file, {}: one block, speed", codec.name),
                    geometric_mean(speeds), at_least(10));
    }
    std::vector<double> speeds;
    for (const bench::State &s : states)
        speeds.push_back(bench.time(s.name + " gzip") / bench.time(s.name + " pack"));
    bench.ratio("shuffle+lz4 beside gzip -1: speed, mean", geometric_mean(speeds), at_least(20));
}

} // namespace

int main(int argc, char **argv)
{
    Bench bench(argc, argv);
    Scratch dir;
    auto states = make_states(bench.full() ? size_t(16) << 20 : size_t(1) << 20);
    std::vector<Stored> stored;
    for (const bench::State &s : states)
        for (const Whole &codec : kCodecs)
            stored.push_back(store(dir, s, codec));
    for (const Stored &s : stored) {
        benchmark::RegisterBenchmark((s.name + " block").c_str(),
                                     [&](benchmark::State &b) { one_block(b, s); });
        benchmark::RegisterBenchmark((s.name + " whole").c_str(),
                                     [&](benchmark::State &b) { whole_file(b, s); });
    }
    for (const bench::State &s : states) {
        std::string path = dir / s.name;
        Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        if (!fd || write(fd.get(), s.bytes.data(), s.bytes.size()) != ssize_t(s.bytes.size()))
            wrong("a state could not be written");
        benchmark::RegisterBenchmark((s.name + " gzip").c_str(),
                                     [path](benchmark::State &b) { gzip(b, path); });
        benchmark::RegisterBenchmark((s.name + " pack").c_str(),
                                     [&](benchmark::State &b) { pack(b, s.bytes); });
    }
    bench.run();
    report_bases(bench);
    report(bench, states, stored);
    return bench.finish();
}
