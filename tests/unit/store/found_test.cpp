// SPDX-License-Identifier: Apache-2.0
// What belongs to an image that is put into a store.
#include "sample.hpp"
#include "store/found.hpp"

#include <filesystem>
#include <gtest/gtest.h>

namespace cryo::store {

namespace {

void expect_alone(const std::string &directory, const std::string &name)
{
    const Result<Contents> found = contents_of(directory + "/" + name);
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(name, found->root);
    ASSERT_EQ(1U, found->files.size());
    EXPECT_EQ(name, found->files.front().name);
}

} // namespace

// Else it would be sent once, but brought twice, and counted so.
TEST(Found, AnImageOfTwoNamesIsOneFile)
{
    const image::Scratch dir;
    image::write_image(dir / "context.000001", image::Model::random(1, 4));
    for (const char *name : {"context.000000", "latest"})
        std::filesystem::create_hard_link(dir / "context.000001", dir / name);
    for (const char *name : {"context.000000", "context.000001", "latest"})
        expect_alone(dir.path().string(), name);
}

} // namespace cryo::store
