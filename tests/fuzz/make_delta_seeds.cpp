// SPDX-License-Identifier: Apache-2.0
//
// make_delta_seeds DIRECTORY: writes small versions of each kind into DIRECTORY/seeds, as the
// initial corpus; the base of the delta among them is DIRECTORY/base.
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "delta/plain_file.hpp"
#include "delta/state.hpp"
#include "delta/version.hpp"

using namespace cryo;
using namespace cryo::delta;
using namespace cryo::image;

namespace {

template <class T>
T check(Result<T> result)
{
    if (!result) {
        fprintf(stderr, "make_delta_seeds: %s\n", result.error().text().c_str());
        exit(1);
    }
    return std::move(*result);
}

// Blocks that are identified by a number, with zeros in between.
std::vector<uint8_t> contents(unsigned changed)
{
    std::vector<uint8_t> out(9 * kPageSize + 100);
    uint32_t state = 7;
    for (size_t i = 0; i < out.size(); i++) {
        state = state * 1664525 + 1013904223;
        size_t block = i / kPageSize;
        out[i] = block == 2 ? 0 : uint8_t((block == changed) + (block < 4 ? state >> 24 : block));
    }
    return out;
}

class Files
{
  public:
    explicit Files(const std::filesystem::path &directory) : directory_(directory) {}

    std::unique_ptr<PlainFile> plain(const std::vector<uint8_t> &bytes) const
    {
        std::string path = directory_ / "plain";
        FILE *file = fopen(path.c_str(), "w");
        if (!file || fwrite(bytes.data(), 1, bytes.size(), file) != bytes.size() || fclose(file))
            exit(1);
        return check(PlainFile::open(path));
    }
    Committed write(ByteSource &source, VersionPlan plan, const std::string &name) const
    {
        plan.about.name = name;
        plan.package_blocks = kMinPackageBlocks;
        auto sink = check(
            FileSink::create(directory_ / name, {.direct = false, .sync = false, .mode = 0600}));
        return check(write_version(source, plan, std::move(sink)));
    }

  private:
    std::filesystem::path directory_;
};

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_delta_seeds DIRECTORY\n");
        return 255;
    }
    std::filesystem::path to = argv[1];
    std::filesystem::create_directories(to / "seeds");
    Files files(to);
    auto old = files.plain(contents(0));
    Signature before = check(sign(*old, kDefaultBlock));
    Committed base = files.write(*old, {.about = {}, .now = before}, "base");
    files.write(*old, {.about = {}, .now = before, .packing = Packing::raw}, "seeds/complete");
    VersionPlan signature{.about = {}, .now = before};
    signature.about.has_contents = false;
    files.write(*old, signature, "seeds/signature");
    Signature large = check(sign(*old, 4 * kDefaultBlock));
    files.write(*old, {.about = {}, .now = large}, "seeds/large_blocks");

    auto changed = files.plain(contents(3));
    Signature now = check(sign(*changed, kDefaultBlock));
    VersionPlan delta{.about = {.number = 2, .base_number = 1, .base = DeltaBase::image},
                      .now = now,
                      .base = &before,
                      .base_image = {base.id, base.checksum}};
    files.write(*changed, delta, "seeds/delta");
    delta.about.base = DeltaBase::file;
    files.write(*changed, delta, "seeds/on_a_file");

    State state;
    state.series = base.id;
    state.base = {base.id, before};
    state.previous = {base.checksum, now};
    for (uint32_t number : {1u, 2u})
        state.entries.push_back({.number = number,
                                 .id = number == 1 ? base.id : base.checksum,
                                 .base_id = number == 1 ? Digest() : base.id,
                                 .path = "/somewhere"});
    auto saved = state.save(to / "seeds");
    return saved ? 0 : 1;
}
