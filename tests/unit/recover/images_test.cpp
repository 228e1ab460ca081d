// SPDX-License-Identifier: Apache-2.0
//
// From which images a program may come back, and that an abandoned one is none of them.
#include "recover/images.hpp"

#include "sample.hpp"

#include <cerrno>
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
        state->count(name);
        ASSERT_TRUE(state->save());
        state->give_back(false);
    }
    static Names names_of(const Images &images)
    {
        Names names;
        for (const Image &one : images.offer().images)
            names.push_back(one.name);
        return names;
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
    EXPECT_EQ(names_of(*images), (Names{"context.000002", "context.000003", "context.1000000"}));
}

TEST_F(ImagesTest, AreThoseThatHaveNotBeenReplaced)
{
    add("context.000001");
    add("context.000002");
    fs::remove(dir_ / "context.000002");
    image::write_image(dir_ / "context.000002", image::Model::random(3, 4));
    const Result<Images> images = Images::take(dir_.path());
    ASSERT_TRUE(images);
    EXPECT_EQ(names_of(*images), Names{"context.000001"});
}

TEST_F(ImagesTest, AreNoneWhereNoKeeperWas)
{
    const Result<Images> images = Images::take(dir_.path());
    ASSERT_TRUE(images);
    EXPECT_TRUE(names_of(*images).empty());
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
        EXPECT_EQ(names_of(*images), Names{"context.000001"});
    }
    EXPECT_TRUE(fs::exists(dir_ / "abandoned.context.000002.2"));
    EXPECT_TRUE(fs::equivalent(dir_ / "latest", dir_ / "context.000001"));
    const Result<Images> again = Images::take(dir_.path());
    ASSERT_TRUE(again);
    EXPECT_EQ(names_of(*again), Names{"context.000001"});
}

TEST_F(ImagesTest, AreCounted)
{
    add("context.000001");
    add("context.000002");
    EXPECT_FALSE(Images::take(dir_.path())->offer().has_others);
    ASSERT_TRUE(Images::take(dir_.path())->abandon("context.000002"));
    add("context.000002");
    image::write_image(dir_ / "context.000009", image::Model::random(2, 4));
    const Result<Images> images = Images::take(dir_.path());
    ASSERT_TRUE(images);
    EXPECT_EQ(images->offer().images,
              (std::vector<Image>{{"context.000001", 1}, {"context.000002", 3}}));
    EXPECT_EQ(images->offer().made, 3U);
    EXPECT_TRUE(images->offer().has_others);
}

// A late image would be newer than the one from which the program comes back.
TEST_F(ImagesTest, AreNotLookedAtWhileAKeeperMayMakeOne)
{
    add("context.000001");
    const Result<keeper::State> keeper = keeper::State::take(dir_.path());
    ASSERT_TRUE(keeper);
    const Result<Images> images = Images::take(dir_.path(), 0);
    ASSERT_FALSE(images);
    EXPECT_EQ(images.error().code(), EBUSY);
}

TEST_F(ImagesTest, AreFreeForTheNextKeeperAfterwards)
{
    static_cast<void>(Images::take(dir_.path()));
    EXPECT_FALSE(fs::exists(dir_ / "keeper.lock"));
    EXPECT_TRUE(keeper::State::take(dir_.path()));
}

} // namespace
} // namespace cryo::recover
