// SPDX-License-Identifier: Apache-2.0
//
// Reading returns what was written, for all contents, packings, sinks and readers.
#include <fcntl.h>
#include <sys/stat.h>
#include <thread>

#include "sample.hpp"

namespace cryo::image {
namespace {

TEST(RoundTrip, Empty)
{
    Scratch dir;
    Committed done = write_image(dir / "image", {});
    expect_sound(dir / "image", {});
    EXPECT_EQ(std::filesystem::file_size(dir / "image"), done.size);
    EXPECT_LE(done.size, 3 * kPageSize);
}

struct Way {
    const char *name;
    Packing packing;
    uint32_t package_blocks;
    unsigned threads;
    bool synchronous;
    size_t index_part;
};

class RandomImages : public testing::TestWithParam<Way>
{};

TEST_P(RandomImages, ComeBack)
{
    const Way &way = GetParam();
    Scratch dir;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        SCOPED_TRACE(seed);
        Model model = Model::random(seed, seed == 12 ? 6000 : 400);
        write_image(dir / "image", model,
                    {.packing = way.packing,
                     .package_blocks = way.package_blocks,
                     .threads = way.threads,
                     .synchronous = way.synchronous,
                     .index_part = way.index_part});
        expect_sound(dir / "image", model);
        if (HasFailure())
            return;
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, RandomImages,
                         testing::Values(Way{"raw", Packing::raw, 64, 0, false, kMaxRecord},
                                         Way{"raw_small_packages", Packing::raw, 4, 2, false, 1},
                                         Way{"lz4", Packing::lz4, 64, 2, false, kMaxRecord},
                                         Way{"zstd", Packing::zstd, 16, 3, false, kMaxRecord},
                                         Way{"shuffle", Packing::shuffle_lz4, 7, 4, false, 1},
                                         Way{"automatic", Packing::automatic, 64, 0, false,
                                             kMaxRecord},
                                         Way{"synchronous", Packing::automatic, 5, 0, true, 1}),
                         [](const auto &way) { return std::string(way.param.name); });

} // namespace
} // namespace cryo::image
