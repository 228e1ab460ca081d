// SPDX-License-Identifier: Apache-2.0
// Which images go for a budget; and that nothing else does.
#include "survey/budget.hpp"

#include "keeper/state.hpp"
#include "sample.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::survey {

namespace {

namespace fs = std::filesystem;
using Names = std::vector<std::string>;

constexpr uid_t own = 1000;

Stored stored(const std::string &name, uint64_t bytes, const Names &based_on = {})
{
    return {.name = name,
            .program = "app",
            .pid = 412,
            .bytes = bytes,
            .delta = !based_on.empty(),
            .based_on = based_on,
            .owner = own,
            .names = 1};
}

Names gone(const std::vector<Stored> &images, uint64_t budget, const Names &damaged = {})
{
    const Shelf shelf = {.directory = "run", .images = images};
    Names names;
    for (const size_t i : surplus(shelf, budget, own, [&](const Stored &one) {
             return std::ranges::find(damaged, one.name) == damaged.end();
         }))
        names.push_back(shelf.images[i].name);
    return names;
}

TEST(BudgetTest, TheOldestGo)
{
    const std::vector<Stored> images = {stored("1", 10), stored("2", 10), stored("3", 10)};
    EXPECT_EQ(gone(images, 30), Names{});
    EXPECT_EQ(gone(images, 29), Names{"1"});
    EXPECT_EQ(gone(images, 10), (Names{"1", "2"}));
}

TEST(BudgetTest, TheNewestGoodOneStaysWhateverItTakes)
{
    const std::vector<Stored> images = {stored("1", 10), stored("2", 10), stored("3", 10)};
    EXPECT_EQ(gone(images, 0), (Names{"1", "2"}));
    EXPECT_EQ(gone(images, 0, {"3"}), (Names{"1", "3"}));
    EXPECT_EQ(gone(images, 20, {"3"}), Names{"1"});
    EXPECT_EQ(gone(images, 0, {"1", "2", "3"}), Names{}); // none of them can be relied on
}

TEST(BudgetTest, BasesOfWhatStaysStay)
{
    const std::vector<Stored> images = {stored("1", 10), stored("2", 1, {"1"}), stored("3", 10),
                                        stored("4", 1, {"3"}), stored("5", 1, {"4", "3"})};
    EXPECT_EQ(gone(images, 23), Names{});
    EXPECT_EQ(gone(images, 22), (Names{"2", "1"})); // 1 would have room, and is older than 2
    EXPECT_EQ(gone(images, 0), (Names{"2", "1"}));
}

// A removal that is broken off leaves no delta without its base.
TEST(BudgetTest, ADeltaGoesBeforeItsBase)
{
    const std::vector<Stored> images = {stored("1", 10), stored("2", 1, {"1"}),
                                        stored("3", 1, {"2", "1"}), stored("4", 10)};
    EXPECT_EQ(gone(images, 10), (Names{"3", "2", "1"}));
}

TEST(BudgetTest, EachProgramKeepsOne)
{
    std::vector<Stored> images = {stored("1", 10), stored("2", 10), stored("3", 10)};
    images[0].pid = 413;
    EXPECT_EQ(gone(images, 0), Names{"2"});
    images[1].program = "other";
    EXPECT_EQ(gone(images, 0), Names{});
}

TEST(BudgetTest, WhatIsNoWholeImageOfTheCallersInOneFileStays)
{
    const auto with = [](const std::function<void(Stored &)> &change) {
        std::vector<Stored> images = {stored("1", 10), stored("2", 10), stored("3", 10, {})};
        change(images[0]);
        return gone(images, 0);
    };
    const Names other = {"2"};
    EXPECT_EQ(with([](Stored &one) { one.owner = own + 1; }), other);
    EXPECT_EQ(with([](Stored &one) { one.names = 2; }), other);
    EXPECT_EQ(with([](Stored &one) { one.also = {"good"}; }), other);
    EXPECT_EQ(with([](Stored &one) { one.broken = Error(EBADMSG, "cut"); }), other);
    EXPECT_EQ(with([](Stored &one) { one.kind = Kind::directory; }), other);
    EXPECT_EQ(with([](Stored &one) { one.kind = Kind::file; }), other);
    EXPECT_EQ(with([](Stored &one) { one.kind = Kind::job; }), other);
    EXPECT_EQ(with([](Stored &one) { one.kind = Kind::archive; }), (Names{"1", "2"}));
}

// One that stays needs its base, be it whole or not.
TEST(BudgetTest, BasesOfWhatCannotGoStay)
{
    std::vector<Stored> images = {stored("1", 10), stored("2", 10), stored("3", 1, {"1"}),
                                  stored("4", 10)};
    images[2].broken = Error(EBADMSG, "cut");
    EXPECT_EQ(gone(images, 0), Names{"2"});
}

class PruneTest : public testing::Test
{
  protected:
    image::Committed add(const std::string &name) const
    {
        return image::write_image(dir_ / name, image::Model::random(1, 40));
    }
    uint64_t size() const { return fs::file_size(dir_ / "1"); }
    Names there() const
    {
        Names names;
        for (const auto &one : fs::directory_iterator(dir_.path()))
            names.push_back(one.path().filename());
        std::ranges::sort(names);
        return names;
    }
    Result<Pruned> prune_to(uint64_t budget, Removal removal = Removal::real)
    {
        told_.clear();
        return prune(dir_.path(), budget, removal,
                     [&](const Stored &one) { told_.push_back(one.name); });
    }

    image::Scratch dir_;
    Names told_;
};

TEST_F(PruneTest, FilesAreRemovedAndNamed)
{
    for (const char *name : {"1", "2", "3"})
        add(name);
    std::ofstream(dir_ / "text") << "mine";
    Result<Pruned> done = prune_to(size() * 2, Removal::imagined);
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(told_, Names{"1"});
    EXPECT_EQ(there(), (Names{"1", "2", "3", "text"}));
    const uint64_t one = size();
    done = prune_to(one * 2);
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(told_, Names{"1"});
    EXPECT_EQ(there(), (Names{"2", "3", "text"}));
    EXPECT_EQ(done->removed, 1U);
    EXPECT_EQ(done->left, 2U);
    EXPECT_EQ(done->freed, one);
    EXPECT_EQ(done->bytes, one * 2);
}

// Damage that only reading the pages shows.
TEST_F(PruneTest, TheNewestIsReadBeforeItIsReliedOn)
{
    for (const char *name : {"1", "2", "3"})
        add(name);
    std::vector<uint8_t> bytes = image::slurp(dir_ / "3");
    bytes[bytes.size() / 2] ^= 1;
    image::spew(dir_ / "3", bytes);
    ASSERT_FALSE(look_at_shelf(dir_.path())->images[2].broken);
    ASSERT_TRUE(prune_to(0));
    EXPECT_EQ(there(), Names{"2"});
}

TEST_F(PruneTest, NothingIsRemovedBesideAKeeper)
{
    for (const char *name : {"1", "2"})
        add(name);
    Result<keeper::State> state = keeper::State::take(dir_.path());
    ASSERT_TRUE(state);
    for (const Removal removal : {Removal::real, Removal::imagined})
        EXPECT_EQ(prune_to(0, removal).error().code(), EBUSY);
    state->give_back(false);
    ASSERT_TRUE(prune_to(0));
    EXPECT_EQ(there(), Names{"2"});
}

TEST_F(PruneTest, OthersCanLeadItNowhere)
{
    for (const char *name : {"1", "2"})
        add(name);
    ASSERT_EQ(chmod(dir_.path().c_str(), 0777), 0);
    EXPECT_EQ(prune_to(0).error().code(), EACCES);
    ASSERT_EQ(chmod(dir_.path().c_str(), 0700), 0);
    const image::Scratch elsewhere;
    fs::create_directory_symlink(dir_.path(), elsewhere / "link");
    EXPECT_FALSE(prune(elsewhere / "link", 0, Removal::real, [](const Stored &) {}));
    fs::rename(dir_ / "1", elsewhere / "image");
    fs::create_symlink(elsewhere / "image", dir_ / "1");
    ASSERT_TRUE(prune_to(0));
    EXPECT_EQ(there(), (Names{"1", "2"}));
    EXPECT_TRUE(fs::exists(elsewhere / "image"));
}

} // namespace

} // namespace cryo::survey
