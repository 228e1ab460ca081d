// SPDX-License-Identifier: Apache-2.0
//
// make_image_seeds DIRECTORY: writes small images with some of everything into DIRECTORY/seeds, as
// the initial corpus; the base of the delta among them is DIRECTORY/base.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "image/snapshot.hpp"

using namespace cryo;
using namespace cryo::image;

namespace {

template <class T>
T check(Result<T> result)
{
    if (!result) {
        fprintf(stderr, "make_image_seeds: %s\n", result.error().text().c_str());
        exit(1);
    }
    return std::move(*result);
}

void check(const Result<void> &result)
{
    if (!result) {
        fprintf(stderr, "make_image_seeds: %s\n", result.error().text().c_str());
        exit(1);
    }
}

// Every record type once, with data in each field of variable length.
struct Filler {
    template <class T>
    void operator()(const char *, T &field, Show = Show::decimal)
    {
        static const uint8_t bytes[] = {1, 0, 0, 0, 2, 0, 0, 0};
        if constexpr (std::is_same_v<T, std::string_view>)
            field = "text";
        else if constexpr (std::is_same_v<T, Bytes>)
            field = Bytes(bytes);
        else if constexpr (is_list<T>)
            field = T(Bytes(bytes));
        else if constexpr (std::is_integral_v<T>)
            field = 1;
    }
};

void add_records(ImageWriter &writer)
{
    AllRecords::each([&]<class R>() {
        R record;
        R::fields(record, Filler());
        check(writer.add(record));
    });
    check(writer.add_record(RecordType(1000), 1, 0, as_bytes("unknown")));
}

std::vector<uint8_t> pages(size_t count, unsigned kind)
{
    std::vector<uint8_t> out(count * kPageSize);
    uint32_t state = kind + 1;
    for (size_t i = 0; i < out.size(); i++) {
        state = state * 1664525 + 1013904223;
        out[i] = uint8_t(kind == 0 ? state >> 24 : i % 8 ? i / 4096 + kind : state >> 28);
    }
    return out;
}

std::unique_ptr<Sink> sink(const std::filesystem::path &path)
{
    return check(FileSink::create(path, {.direct = false, .sync = false, .mode = 0600}));
}

Committed make_image(std::unique_ptr<ImageWriter> writer, bool delta)
{
    add_records(*writer);
    check(writer->add_pages(1, 100, pages(5, 0)));
    check(writer->add_pages(1, 105, pages(3, 1)));
    check(writer->add_zero(1, 200, 9));
    if (delta)
        check(writer->add_base(1, 300, 5, 100));
    check(writer->add_pages(2, 0, pages(2, 2)));
    return check(writer->commit());
}

// Enough extents that the tables are packed.
void make_scattered(std::unique_ptr<ImageWriter> writer)
{
    const std::vector<uint8_t> page = pages(1, 1);
    for (uint64_t i = 0; i < 140; i++) {
        check(writer->add_pages(1, 100 + 3 * i, page));
        check(writer->add_zero(1, 101 + 3 * i, 1));
    }
    check(writer->commit());
}

WriterOptions options(Packing packing)
{
    return {.packing = packing, .package_blocks = 4, .synchronous = true, .index_part = 1};
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_image_seeds DIRECTORY\n");
        return 255;
    }
    std::filesystem::path to = argv[1];
    std::filesystem::path seeds = to / "seeds";
    std::filesystem::create_directories(seeds);
    for (auto [packing, name] : {std::pair(Packing::raw, "raw"),
                                 {Packing::lz4, "lz4"},
                                 {Packing::zstd, "zstd"},
                                 {Packing::shuffle_lz4, "shuffle"}})
        make_image(check(ImageWriter::create(sink(seeds / name), options(packing))), false);
    Committed base =
        make_image(check(ImageWriter::create(sink(to / "base"), options(Packing::raw))), false);
    WriterOptions as_delta = options(Packing::automatic);
    as_delta.base = BaseImage{base.id, base.checksum};
    make_image(check(ImageWriter::create(sink(seeds / "delta"), as_delta)), true);

    WriterOptions scattered = options(Packing::lz4);
    scattered.package_blocks = kMaxPackageBlocks;
    make_scattered(check(ImageWriter::create(sink(seeds / "scattered"), scattered)));

    check(check(ImageWriter::create(sink(seeds / "empty"), options(Packing::raw)))->commit());
    ArchiveWriter archive(sink(seeds / "archive"));
    for (uint32_t pid : {1u, 2u}) {
        auto writer = check(archive.begin_member(options(Packing::lz4)));
        check(writer->add(Process{.pid = pid}));
        check(writer->add_pages(1, 7, pages(1, 3)));
        check(archive.end_member(*writer, {.pid = pid}));
    }
    archive.add_without_image({.state = MemberState::zombie, .pid = 3});
    check(archive.commit({.scope = Scope::tree, .root_pid = 1}));
}
