// SPDX-License-Identifier: Apache-2.0
//
// Packing::spare: packages are packed while the output is the bottleneck, and left raw while the
// output is idle.
#include "image/pipeline.hpp"

#include <algorithm>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>

using namespace cryo::image;

namespace {

constexpr size_t package_bytes = 256 * 1024;

Batch batch_of(Pipeline &pipeline, size_t packages)
{
    auto memory = pipeline.memory();
    Batch batch;
    batch.memory = std::move(*memory);
    batch.bytes = packages * package_bytes;
    const MutableBytes data = batch.memory->data().first(batch.bytes);
    for (size_t i = 0; i < data.size(); i++)
        data[i] = static_cast<uint8_t>(i / 64); // packs well
    return batch;
}

std::vector<Codec> codecs_of(const Batch &batch)
{
    std::vector<Codec> found;
    for (const Package &package : batch.packages)
        found.push_back(package.codec);
    return found;
}

} // namespace

TEST(Spare, PacksWhenTheOutputIsWaitedFor)
{
    constexpr size_t packages = 8, batches = 12;
    std::vector<std::vector<Codec>> written;
    std::atomic<size_t> submitted = 0;
    Pipeline *there = nullptr;
    Pipeline pipeline({.packing = Packing::spare, .threads = 2, .package_bytes = package_bytes},
                      [&](Batch &batch) -> cryo::Result<void> {
                          while (submitted < batches && !there->is_ahead())
                              std::this_thread::yield();
                          written.push_back(codecs_of(batch));
                          return {};
                      });
    there = &pipeline;
    for (size_t i = 0; i < batches; i++) {
        ASSERT_TRUE(pipeline.submit(batch_of(pipeline, packages)));
        submitted++;
    }
    ASSERT_TRUE(pipeline.drain());
    ASSERT_EQ(written.size(), batches);
    // The first batches, submitted before any wait, are raw; some later one is packed.
    for (size_t i = 0; i < Pipeline::kSegments; i++)
        EXPECT_EQ(written[i], std::vector(packages, Codec::raw)) << i;
    EXPECT_TRUE(std::ranges::any_of(written, [&](const std::vector<Codec> &codecs) {
        return std::ranges::count(codecs, Codec::raw) == 0;
    }));
}

TEST(Spare, LeavesAllAsItIsWhereTheOutputWaits)
{
    std::vector<std::vector<Codec>> written;
    Pipeline pipeline({.packing = Packing::spare, .threads = 2, .package_bytes = package_bytes},
                      [&](Batch &batch) -> cryo::Result<void> {
                          written.push_back(codecs_of(batch));
                          return {};
                      });
    for (size_t i = 0; i < 8; i++) {
        ASSERT_TRUE(pipeline.submit(batch_of(pipeline, 4)));
        ASSERT_TRUE(pipeline.drain());
    }
    EXPECT_EQ(written, std::vector(8, std::vector(4, Codec::raw)));
}

TEST(Spare, LeavesAllAsItIsWithoutThreads)
{
    std::vector<Codec> written;
    Pipeline pipeline({.packing = Packing::spare, .threads = 0, .package_bytes = package_bytes},
                      [&](Batch &batch) -> cryo::Result<void> {
                          written = codecs_of(batch);
                          return {};
                      });
    ASSERT_TRUE(pipeline.submit(batch_of(pipeline, 3)));
    EXPECT_EQ(written, std::vector(3, Codec::raw));
}

TEST(Spare, IsWhatAutoMeans)
{
    EXPECT_EQ(packing_of("none"), Packing::raw);
    EXPECT_EQ(packing_of("auto"), Packing::spare);
    EXPECT_EQ(packing_of("always"), Packing::automatic);
}
