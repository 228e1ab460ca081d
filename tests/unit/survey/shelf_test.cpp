// SPDX-License-Identifier: Apache-2.0
// Which files in a directory are taken for images, and what is said of them.
#include "survey/shelf.hpp"

#include "../coord/store.hpp"
#include "sample.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>

namespace cryo::survey {

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

class ShelfTest : public testing::Test
{
  protected:
    image::Committed add(const std::string &name)
    {
        return image::write_image(dir_ / name, image::Model::random(1, 40));
    }
    void add_delta(const std::string &name, const image::Committed &base)
    {
        image::write_image(dir_ / name, image::Model::random(2, 4),
                           {.base = image::BaseImage{base.id, base.checksum}});
    }
    void put(const std::string &name, const std::string &text) const
    {
        std::ofstream(dir_ / name) << text;
    }
    Shelf look() const
    {
        const Result<Shelf> shelf = look_at_shelf(dir_.path());
        EXPECT_TRUE(shelf) << shelf.error().text();
        return shelf ? *shelf : Shelf();
    }
    static Names names_in(const Shelf &shelf)
    {
        Names names;
        for (const Stored &one : shelf.images)
            names.push_back(one.name);
        return names;
    }

    image::Scratch dir_;
};

TEST_F(ShelfTest, RanksOfAJobThatAreCounted)
{
    const coord::Store job(dir_.path());
    ASSERT_TRUE(job.save_counted(3));
    const auto look_at_job = [&] {
        const Result<Shelf> shelf = look_at_shelf(job.base());
        EXPECT_TRUE(shelf && shelf->images.size() == 1);
        return shelf ? shelf->images.front() : Stored();
    };
    const Stored stored = look_at_job();
    EXPECT_EQ(stored.kind, Kind::job);
    EXPECT_EQ(stored.processes, 3U);
    EXPECT_EQ(stored.bytes, 21U);
    EXPECT_FALSE(stored.broken);
    fs::remove(job.at(coord::Store::text_of(1)));
    EXPECT_TRUE(look_at_job().broken);
}

TEST_F(ShelfTest, ImagesAreListedTheOldestFirst)
{
    add("b");
    add("a");
    const Shelf shelf = look();
    EXPECT_EQ(names_in(shelf), (Names{"b", "a"}));
    for (const Stored &one : shelf.images) {
        EXPECT_FALSE(one.broken);
        EXPECT_FALSE(one.delta);
        EXPECT_EQ(one.kind, Kind::image);
        EXPECT_EQ(one.bytes, fs::file_size(dir_ / one.name));
    }
    EXPECT_EQ(shelf.bytes(), fs::file_size(dir_ / "a") + fs::file_size(dir_ / "b"));
}

TEST_F(ShelfTest, DeltasNameWhatTheyNeed)
{
    const image::Committed first = add("first");
    add_delta("second", first);
    const Shelf shelf = look();
    ASSERT_EQ(names_in(shelf), (Names{"first", "second"}));
    EXPECT_TRUE(shelf.images[1].delta);
    EXPECT_EQ(shelf.images[1].based_on, Names{"first"});
    EXPECT_FALSE(shelf.images[1].broken);
    fs::remove(dir_ / "first");
    const Shelf later = look();
    ASSERT_EQ(names_in(later), Names{"second"});
    EXPECT_TRUE(later.images[0].broken);
}

TEST_F(ShelfTest, ALinkToTheSameFileIsNoFurtherImage)
{
    add("context.000001");
    fs::create_hard_link(dir_ / "context.000001", dir_ / "latest");
    const Shelf shelf = look();
    ASSERT_EQ(names_in(shelf), Names{"context.000001"});
    EXPECT_EQ(shelf.images[0].also, Names{"latest"});
    EXPECT_EQ(shelf.images[0].names, 2U);
}

// Neither what other users may have put there, nor what a checkpoint is writing.
TEST_F(ShelfTest, NothingElseIsAnImage)
{
    put("text", "mine");
    put("empty", "");
    add(".context.000009.412");
    fs::create_directory(dir_ / "inner");
    image::write_image(dir_ / "inner/image", image::Model::random(1, 4));
    fs::create_symlink(dir_ / "inner/image", dir_ / "link");
    ASSERT_EQ(mkfifo((dir_ / "fifo").c_str(), 0600), 0);
    EXPECT_EQ(names_in(look()), Names{});
}

TEST_F(ShelfTest, AnImageThatWasCutIsNotWhole)
{
    add("image");
    fs::resize_file(dir_ / "image", fs::file_size(dir_ / "image") - 4096);
    const Shelf shelf = look();
    ASSERT_EQ(names_in(shelf), Names{"image"});
    EXPECT_TRUE(shelf.images[0].broken);
}

TEST_F(ShelfTest, DirectoriesThatAreNone)
{
    EXPECT_EQ(look_at_shelf(dir_ / "gone").error().code(), ENOENT);
    put("file", "mine");
    EXPECT_EQ(look_at_shelf(dir_ / "file").error().code(), ENOTDIR);
    fs::create_directory(dir_ / "inner");
    fs::create_directory_symlink(dir_ / "inner", dir_ / "link");
    EXPECT_FALSE(look_at_shelf(dir_ / "link"));
    put("inner/tree.cryo", "");
    const Result<Shelf> tree = look_at_shelf(dir_ / "inner");
    ASSERT_FALSE(tree);
    EXPECT_NE(tree.error().text().find("name the directory in which it is"), std::string::npos);
}

} // namespace

} // namespace cryo::survey
