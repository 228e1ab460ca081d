// SPDX-License-Identifier: Apache-2.0
// What belongs to an image that is put into a store.
#include "../coord/store.hpp"
#include "sample.hpp"
#include "store/found.hpp"

#include <algorithm>
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

// The metadata do not list them, but what they have belongs to the snapshot.
TEST(Found, RanksThatAreCountedAreThere)
{
    const coord::Store job;
    ASSERT_TRUE(job.save_counted(3));
    ASSERT_TRUE(job.save());
    const Result<Contents> found = contents_of(job.top());
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(Kind::snapshot, found->kind);
    std::vector<std::string> names;
    for (const Content &one : found->files) {
        names.push_back(std::string(coord::reference) + "/" + one.name);
        EXPECT_TRUE(one.open()) << one.name;
    }
    std::vector<std::string> there = job.everything();
    std::erase_if(there, [&](const std::string &name) {
        return std::filesystem::is_directory(job.at(name));
    });
    std::ranges::sort(names);
    EXPECT_EQ(there, names);
    std::filesystem::remove(job.at(coord::Store::text_of(1)));
    const Result<Contents> refused = contents_of(job.top());
    ASSERT_FALSE(refused);
    EXPECT_NE(std::string::npos, refused.error().text().find("the image of rank 1"))
        << refused.error().text();
}

} // namespace cryo::store
