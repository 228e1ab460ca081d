// SPDX-License-Identifier: Apache-2.0
//
// Parity of sets of nodes: rows of blocks in memory beside memcpy of the same data, and whole sets
// of files beside copies of the files. Files are made in memory.
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <random>
#include <unistd.h>

#include "image/checksum.hpp"
#include "ratios.hpp"
#include "redundancy/coder.hpp"
#include "redundancy/encode.hpp"

using namespace cryo;
using namespace cryo::bench;
using namespace cryo::redundancy;

namespace {

[[noreturn]] void wrong(const std::string &what)
{
    fmt::print(stderr, "redundancy_bench: {}\n", what);
    exit(1);
}

std::vector<uint8_t> noise(size_t size)
{
    std::mt19937_64 random(7);
    std::vector<uint8_t> bytes(size);
    for (size_t i = 0; i + 8 <= size; i += 8) {
        const uint64_t word = random();
        memcpy(bytes.data() + i, &word, sizeof word);
    }
    return bytes;
}

template <class F>
void add(const std::string &name, F work)
{
    benchmark::RegisterBenchmark(name.c_str(), [work](benchmark::State &state) {
        for (auto _ : state)
            work();
    })->Iterations(1);
}

// Rows in memory, of which `data` blocks each are data: as many bytes as `bytes` has pass through.
class Memory
{
  public:
    Memory(size_t size, uint32_t data, uint32_t parity)
        : data_(data), coder_(data, parity, default_block)
    {
        const std::vector<uint8_t> some = noise(default_block);
        const size_t rows = size / (data * size_t(default_block));
        for (size_t i = 0; i < rows; i++) {
            rows_.push_back(std::make_unique<Blocks>(data + parity, default_block));
            for (uint32_t at = 0; at < data; at++)
                memcpy((*rows_.back())[at].data(), some.data(), default_block);
        }
    }
    void encode()
    {
        for (const std::unique_ptr<Blocks> &row : rows_)
            coder_.encode(*row);
    }
    void recover()
    {
        std::vector<bool> missing(rows_[0]->count());
        missing[0] = true;
        for (const std::unique_ptr<Blocks> &row : rows_) {
            if (!coder_.recover(*row, missing))
                wrong("a block could not be made");
        }
    }
    void copy(std::vector<uint8_t> &to) const
    {
        uint8_t *at = to.data();
        for (const std::unique_ptr<Blocks> &row : rows_) {
            for (uint32_t i = 0; i < data_; i++, at += default_block)
                memcpy(at, (*row)[i].data(), default_block);
        }
        benchmark::ClobberMemory();
    }

  private:
    uint32_t data_;
    Coder coder_;
    std::vector<std::unique_ptr<Blocks>> rows_;
};

// Four nodes with a file each.
class Files
{
  public:
    explicit Files(size_t size)
        : path_(std::filesystem::path(access("/dev/shm", W_OK) == 0 ? "/dev/shm" : ".") /
                fmt::format("cryo-redundancy-bench-{}", getpid()))
    {
        const std::vector<uint8_t> bytes = noise(size);
        for (int i = 0; i < 4; i++) {
            const std::string node = fmt::format("n{}", i);
            std::filesystem::create_directories(path_ / node);
            std::ofstream(path_ / node / "image", std::ios::binary)
                .write(reinterpret_cast<const char *>(bytes.data()),
                       static_cast<std::streamsize>(size));
            members_.push_back({.node = node,
                                .files = {{.name = "image",
                                           .bytes = size,
                                           .checksum = image::checksum128(bytes).hex()}}});
        }
    }
    ~Files() { std::filesystem::remove_all(path_); }
    Files(const Files &) = delete;
    Files &operator=(const Files &) = delete;

    void encode(const char *scheme) const
    {
        for (const SetMember &member : members_)
            std::filesystem::remove(path_ / member.node / parity_name);
        const Result<Scheme> parsed = parse_scheme(scheme);
        if (!parsed)
            wrong(parsed.error().text());
        const Description set{.id = "bench", .scheme = *parsed, .members = members_};
        const std::vector<Directory> all = directories();
        if (Result<void> done = redundancy::encode(set, all, Trust(), false); !done)
            wrong(done.error().text());
    }
    void rebuild() const
    {
        std::filesystem::remove_all(path_ / "n0");
        std::filesystem::create_directory(path_ / "n0");
        const std::vector<Directory> all = directories();
        const auto done =
            redundancy::rebuild({&all[1], &all[2], &all[3]}, {{0, all.data()}}, Trust());
        if (!done)
            wrong(done.error().text());
    }
    // By read and write in pieces of a block.
    void copy() const
    {
        std::vector<uint8_t> piece(default_block);
        for (const SetMember &member : members_) {
            const Fd from(open((path_ / member.node / "image").c_str(), O_RDONLY | O_CLOEXEC));
            const Fd to(
                open((path_ / "copy").c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
            for (ssize_t n; (n = read(from.get(), piece.data(), piece.size())) > 0;) {
                if (write(to.get(), piece.data(), static_cast<size_t>(n)) != n)
                    wrong("a file could not be copied");
            }
            std::filesystem::remove(path_ / "copy");
        }
    }

  private:
    std::vector<Directory> directories() const
    {
        std::vector<Directory> all;
        for (const SetMember &member : members_) {
            Result<Directory> one = Directory::open(path_ / member.node);
            if (!one)
                wrong(one.error().text());
            all.push_back(std::move(*one));
        }
        return all;
    }

    std::filesystem::path path_;
    std::vector<SetMember> members_;
};

} // namespace

int main(int argc, char **argv)
{
    Bench bench(argc, argv);
    const size_t mib = size_t(1) << 20;
    const size_t bytes = (bench.full() ? 192 : 3) * mib;
    Memory three(bytes, 3, 1);
    Memory two(bytes, 6, 2);
    std::vector<uint8_t> copy(bytes);
    add("memcpy", [&] { three.copy(copy); });
    add("xor", [&] { three.encode(); });
    add("rs", [&] { two.encode(); });
    add("recover", [&] { three.recover(); });
    const Files files((bench.full() ? 64 : 1) * mib);
    add("files", [&] { files.copy(); });
    add("files_xor", [&] { files.encode("xor"); });
    add("files_partner", [&] { files.encode("partner"); });
    add("files_rs", [&] { files.encode("rs:2"); });
    add("files_rebuild", [&] {
        files.encode("xor");
        files.rebuild();
    });
    bench.run();
    bench.ratio("xor of 4 nodes in memory, beside memcpy: speed",
                bench.time("memcpy") / bench.time("xor"), at_least(0.5));
    bench.ratio("rs:2 of 8 nodes in memory, beside memcpy: speed",
                bench.time("memcpy") / bench.time("rs"), std::nullopt);
    bench.ratio("a block of xor in memory, beside memcpy: speed",
                bench.time("memcpy") / bench.time("recover"), std::nullopt);
    bench.ratio("xor of 4 nodes' files, beside copying them: speed",
                bench.time("files") / bench.time("files_xor"), at_least(0.5));
    bench.ratio("partner of 4 nodes' files, beside copying them: speed",
                bench.time("files") / bench.time("files_partner"), std::nullopt);
    bench.ratio("rs:2 of 4 nodes' files, beside copying them: speed",
                bench.time("files") / bench.time("files_rs"), std::nullopt);
    bench.ratio("a node of xor rebuilt, beside copying 4: speed",
                bench.time("files") / (bench.time("files_rebuild") - bench.time("files_xor")),
                std::nullopt);
    return bench.finish();
}
