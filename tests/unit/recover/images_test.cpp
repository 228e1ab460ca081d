// SPDX-License-Identifier: Apache-2.0
//
// From which images a program may come back, and that an abandoned one is none of them.
#include "recover/images.hpp"

#include "sample.hpp"

#include <filesystem>
#include <fstream>

namespace cryo::recover {
namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class ImagesTest : public testing::Test
{
  protected:
    // As a keeper does it.
    void add(const std::string &name)
    {
        image::write_image(dir_ / name, image::Model::random(1, 4));
        Result<keeper::State> state = keeper::State::take(dir_.path());
        ASSERT_TRUE(state);
        keeper::Images images = state->images();
        images[name] = *series_.id_of(name);
        state->set_images(images);
        ASSERT_TRUE(state->save());
        state->give_back(false);
    }
    void SetUp() override { fs::permissions(dir_.path(), fs::perms(0700)); }

    image::Scratch dir_;
    keeper::Series series_{dir_.path()};
};

TEST_F(ImagesTest, AreTheCompleteOnesOfTheKeeperInTheirOrder)
{
    add("context.000002");
    add("context.1000000");
    add("context.000003");
    image::write_image(dir_ / "context.000009", image::Model::random(2, 4)); // not the keeper's
    std::ofstream(dir_ / "context.000010") << "half of";
    std::ofstream(dir_ / ".context.000011.77") << "half of";
    const Result<Images> images = Images::take(dir_.path());
    ASSERT_TRUE(images) << images.error().text();
    EXPECT_EQ(images->names(), (Names{"context.000002", "context.000003", "context.1000000"}));
}

TEST_F(ImagesTest, AreThoseThatHaveNotBeenReplaced)
{
    add("context.000001");
    add("context.000002");
    fs::remove(dir_ / "context.000002");
    image::write_image(dir_ / "context.000002", image::Model::random(3, 4));
    const Result<Images> images = Images::take(dir_.path());
    ASSERT_TRUE(images);
    EXPECT_EQ(images->names(), Names{"context.000001"});
}

TEST_F(ImagesTest, AreNoneWhereNoKeeperWas)
{
    const Result<Images> images = Images::take(dir_.path());
    ASSERT_TRUE(images);
    EXPECT_TRUE(images->names().empty());
}

TEST_F(ImagesTest, ThatAreAbandonedAreKeptUnderAnotherName)
{
    add("context.000001");
    add("context.000002");
    std::ofstream(dir_ / "abandoned.context.000002") << "of an earlier time";
    {
        Result<Images> images = Images::take(dir_.path());
        ASSERT_TRUE(images);
        ASSERT_TRUE(images->abandon("context.000002"));
        EXPECT_EQ(images->names(), Names{"context.000001"});
    }
    EXPECT_TRUE(fs::exists(dir_ / "abandoned.context.000002.2"));
    EXPECT_TRUE(fs::equivalent(dir_ / "latest", dir_ / "context.000001"));
    const Result<Images> again = Images::take(dir_.path());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->names(), Names{"context.000001"});
}

TEST_F(ImagesTest, AreFreeForTheNextKeeperAfterwards)
{
    static_cast<void>(Images::take(dir_.path()));
    EXPECT_FALSE(fs::exists(dir_ / "keeper.lock"));
    EXPECT_TRUE(keeper::State::take(dir_.path()));
}

} // namespace
} // namespace cryo::recover
