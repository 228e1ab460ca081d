// SPDX-License-Identifier: Apache-2.0
// Which files in a directory of automatic checkpoints are removed; and that a file that cannot be
// read is not taken for missing.
#include "keeper/series.hpp"
#include "keeper/state.hpp"

#include "sample.hpp"

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace cryo::keeper {

namespace {

namespace fs = std::filesystem;

class SeriesTest : public testing::Test
{
  protected:
    std::string add(Images &images)
    {
        const Result<std::string> name = series_.next();
        EXPECT_TRUE(name);
        image::write_image(dir_ / *name, image::Model::random(1, 4));
        images[*name] = *series_.id_of(*name);
        return *name;
    }
    void put(const std::string &name, const std::string &text) const
    {
        std::ofstream(dir_ / name) << text;
    }
    std::string text_of(const std::string &name) const
    {
        const auto bytes = image::slurp(dir_ / name);
        return {bytes.begin(), bytes.end()};
    }

    image::Scratch dir_;
    Series series_{dir_.path()};
};

using Names = std::vector<std::string>;

TEST_F(SeriesTest, OnlyWhatWasMadeHereIsRemoved)
{
    Images images;
    put("context.000001", "mine");                                           // no image
    image::write_image(dir_ / "context.000002", image::Model::random(2, 4)); // not of this series
    for (int i = 0; i < 4; i++)
        add(images);
    fs::remove(dir_ / "context.000003"); // replaced by another image
    image::write_image(dir_ / "context.000003", image::Model::random(3, 4));
    ASSERT_TRUE(series_.prune(1, images));
    EXPECT_EQ(*series_.names(),
              (Names{"context.000001", "context.000002", "context.000003", "context.000006"}));
    EXPECT_EQ(images.size(), 1U);
    EXPECT_EQ(text_of("context.000001"), "mine");
}

TEST_F(SeriesTest, LatestReplacesAnImageOnly)
{
    Images images;
    add(images);
    put("latest", "mine");
    EXPECT_FALSE(series_.point_latest());
    EXPECT_EQ(text_of("latest"), "mine");
    fs::remove(dir_ / "latest");
    EXPECT_TRUE(series_.point_latest());
    const std::string second = add(images);
    EXPECT_TRUE(series_.point_latest());
    EXPECT_TRUE(fs::equivalent(dir_ / "latest", dir_ / second));
}

TEST_F(SeriesTest, ADirectoryThatCannotBeReadIsNotEmpty)
{
    const Series gone(dir_ / "gone");
    EXPECT_FALSE(gone.names());
    EXPECT_FALSE(gone.newest());
    EXPECT_FALSE(gone.next());
    Images images = {{"context.000001", "00"}};
    EXPECT_FALSE(Series(dir_ / "file").prune(1, images));
    put("file", "mine");
    EXPECT_FALSE(Series(dir_ / "file").prune(1, images));
    EXPECT_EQ(images.size(), 1U);
}

TEST_F(SeriesTest, AStateThatCannotBeReadIsNotEmpty)
{
    {
        Result<State> state = State::take(dir_.path());
        ASSERT_TRUE(state);
        state->set("series", "ab");
        state->set_images({{"context.000001", "cd"}});
        ASSERT_TRUE(state->save());
    }
    {
        const Result<State> state = State::take(dir_.path());
        ASSERT_TRUE(state);
        EXPECT_EQ(state->images().at("context.000001"), "cd");
    }
    const std::string whole = text_of("keeper.json");
    const auto expect_refused = [&] {
        const Result<State> state = State::take(dir_.path());
        ASSERT_FALSE(state);
        EXPECT_NE(state.error().text().find("nothing is removed"), std::string::npos);
    };
    for (size_t size = 0; size + 2 < whole.size(); size++) {
        put("keeper.json", whole.substr(0, size));
        expect_refused();
    }
    fs::remove(dir_ / "keeper.json");
    fs::create_directory(dir_ / "keeper.json");
    expect_refused();
    fs::remove(dir_ / "keeper.json");
    fs::create_symlink(dir_ / "elsewhere", dir_ / "keeper.json");
    expect_refused();
    fs::remove(dir_ / "keeper.json");
    put("keeper.json", R"({"series": 3, "ran_s": "long", "failures": null, "images": [1]})");
    const Result<State> state = State::take(dir_.path()); // hand-written contents are tolerated
    ASSERT_TRUE(state);
    EXPECT_EQ(state->get("series", std::string()), "");
    EXPECT_EQ(state->get("ran_s", 1.5), 1.5);
    EXPECT_EQ(state->get("failures", 2), 2);
    EXPECT_TRUE(state->images().empty());
}

TEST_F(SeriesTest, ImagesAreCountedAlthoughNamesComeAgain)
{
    Result<State> state = State::take(dir_.path());
    ASSERT_TRUE(state);
    EXPECT_EQ(state->made(), 0U);
    for (const char *name : {"context.000001", "context.000002", "context.000002"}) {
        Images images = state->images();
        images[name] = "ab";
        state->set_images(images);
        state->count(name);
    }
    ASSERT_TRUE(state->save());
    state->give_back(false);
    const Result<State> again = State::take(dir_.path());
    ASSERT_TRUE(again);
    EXPECT_EQ(again->made(), 3U);
    EXPECT_EQ(again->made("context.000001"), 1U);
    EXPECT_EQ(again->made("context.000002"), 3U);
    EXPECT_EQ(again->made("context.000003"), 0U);
}

TEST_F(SeriesTest, ADirectoryThatWasThereStays)
{
    fs::create_directory(dir_ / "mine");
    Result<State> state = State::take(dir_ / "mine");
    ASSERT_TRUE(state);
    state->give_back(false);
    EXPECT_TRUE(fs::is_empty(dir_ / "mine"));
    Result<State> again = State::take(dir_ / "mine");
    ASSERT_TRUE(again);
    again->give_back(true);
    EXPECT_FALSE(fs::exists(dir_ / "mine"));
}

} // namespace

} // namespace cryo::keeper
