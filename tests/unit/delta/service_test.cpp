// SPDX-License-Identifier: Apache-2.0
//
// Service directories: the pattern of bases, merging, pruning, and interruption at any step.
#include <filesystem>

#include "delta/service.hpp"
#include "files.hpp"

namespace cryo::delta {
namespace {

using namespace cryo::image;

class ServiceTest : public testing::Test
{
  protected:
    std::unique_ptr<Service> open(Service::Use use = Service::Use::create)
    {
        auto service = Service::open(dir_ / "service", use);
        EXPECT_TRUE(service) << error_of(service);
        return std::move(*service);
    }
    std::string path(uint32_t number) const { return dir_ / ("d" + std::to_string(number)); }

    // Adds the next version, with these bytes.
    Entry add(const std::vector<uint8_t> &bytes, std::optional<Policy> policy = {})
    {
        spew(dir_ / "file", bytes);
        auto service = open();
        std::optional<Settings> settings;
        if (policy) {
            settings = service->state().settings;
            settings->policy = *policy;
        }
        contents_.push_back(bytes);
        auto number = uint32_t(contents_.size());
        auto added =
            service->add({.file = dir_ / "file", .image = path(number), .settings = settings});
        EXPECT_TRUE(added) << error_of(added);
        EXPECT_EQ(added->number, number);
        return *added;
    }
    std::vector<uint32_t> needs(uint32_t number)
    {
        auto service = open(Service::Use::read);
        const State &state = service->state();
        std::vector<uint32_t> out;
        for (const Entry *e : state.chain(*state.by_number(number)))
            out.insert(out.begin(), e->number);
        return out;
    }
    void expect_restored(uint32_t number)
    {
        auto service = open(Service::Use::read);
        auto entry = service->find(std::to_string(number));
        ASSERT_TRUE(entry) << error_of(entry);
        auto version = service->finder().open_whole(entry->path);
        ASSERT_TRUE(version) << error_of(version);
        Kept out;
        auto ok = write_contents(**version, nullptr, out);
        ASSERT_TRUE(ok) << error_of(ok);
        EXPECT_EQ(out.bytes, contents_[number - 1]) << "version " << number;
    }
    // Restores an earlier copy of the service directory, as if the last steps had not happened.
    void copy_service(const std::string &from, const std::string &to)
    {
        std::filesystem::remove_all(dir_ / to);
        std::filesystem::copy(dir_ / from, dir_ / to, std::filesystem::copy_options::recursive);
    }

    Scratch dir_;
    std::vector<std::vector<uint8_t>> contents_;
};

using Numbers = std::vector<uint32_t>;

// A program that first fills its memory and then works on the same part of it: versions up to the
// 7th are based on the first, all others on the 7th.
TEST_F(ServiceTest, ThePatternOfTwentyFiveVersions)
{
    constexpr size_t kHot = 100;
    constexpr size_t kFresh = 10;
    Blocks file(600, 4096);
    for (uint32_t t = 1; t <= 25; t++) {
        for (size_t i = 0; i < kHot; i++)
            file.change(i);
        if (t <= 7)
            for (size_t i = 0; i < kFresh; i++)
                file.change(kHot + t * kFresh + i);
        add(file.bytes());
    }
    for (uint32_t t = 2; t <= 25; t++) {
        EXPECT_EQ(needs(t), t <= 7 ? Numbers({1, t}) : Numbers({1, 7, t})) << t;
        expect_restored(t);
    }
    // Compared with an incremental series, hardly more is written.
    uint64_t written = 0;
    auto service = open(Service::Use::read);
    for (const Entry &e : service->state().entries)
        written += e.number > 1 ? e.changed : 0;
    uint64_t incremental = 6 * (kHot + kFresh) + 18 * kHot;
    EXPECT_LT(double(written), 1.1 * double(incremental));
}

TEST_F(ServiceTest, ModesAreKept)
{
    Blocks file(50, 4096);
    add(file.bytes(), Policy{.mode = DeltaMode::incremental});
    for (int i = 0; i < 3; i++) {
        file.change(size_t(i));
        add(file.bytes());
    }
    EXPECT_EQ(needs(4), Numbers({1, 2, 3, 4}));
    file.change(9);
    add(file.bytes(), Policy{.mode = DeltaMode::incremental, .most_images = 4});
    EXPECT_EQ(needs(5), Numbers({5}));
    file.change(10);
    add(file.bytes(), Policy{.mode = DeltaMode::differential});
    file.change(11);
    add(file.bytes());
    EXPECT_EQ(needs(7), Numbers({5, 7}));
    for (uint32_t t = 1; t <= 7; t++)
        expect_restored(t);
}

TEST_F(ServiceTest, MergedAndPrunedChainsRestore)
{
    Blocks file(80, 4096);
    for (size_t t = 0; t < 6; t++) {
        file.change(t);
        add(file.bytes(), Policy{.mode = DeltaMode::incremental});
    }
    {
        auto service = open(Service::Use::write);
        auto refused = service->merge({.number = 3});
        EXPECT_NE(error_of(refused).find("is the base of 4"), std::string::npos)
            << error_of(refused);
        auto onto = service->merge({.number = 6, .image = dir_ / "six", .onto = 2});
        ASSERT_TRUE(onto) << error_of(onto);
        EXPECT_EQ(onto->changed, 4u);
    }
    EXPECT_EQ(needs(6), Numbers({1, 2, 6}));
    expect_restored(6);
    {
        auto service = open(Service::Use::write);
        auto would = service->prune({.keep = 2}, true);
        ASSERT_TRUE(would) << error_of(would);
        EXPECT_EQ(would->removed.size(), 1u); // the image that merging left behind
        EXPECT_TRUE(std::filesystem::exists(path(6)));
        ASSERT_TRUE(service->prune({.keep = 2}, false));
        EXPECT_FALSE(std::filesystem::exists(path(6)));
    }
    for (uint32_t t = 1; t <= 6; t++)
        expect_restored(t);
    ASSERT_TRUE(open(Service::Use::write)->merge({.number = 6}));
    ASSERT_TRUE(open(Service::Use::write)->prune({.keep = 1, .every = 3}, false));
    EXPECT_EQ(needs(6), Numbers({6}));
    EXPECT_EQ(needs(3), Numbers({1, 2, 3}));
    expect_restored(3);
    expect_restored(6);
    EXPECT_FALSE(std::filesystem::exists(path(4)));
    file.change(70);
    add(file.bytes());
    EXPECT_EQ(needs(7), Numbers({6, 7}));
    expect_restored(7);
}

TEST_F(ServiceTest, NothingIsPrunedWhenWhatStaysIsDamaged)
{
    Blocks file(20, 4096);
    for (size_t t = 0; t < 3; t++) {
        file.change(t);
        add(file.bytes());
    }
    std::filesystem::remove(path(1));
    auto service = open(Service::Use::write);
    auto pruned = service->prune({.keep = 1}, false);
    EXPECT_NE(error_of(pruned).find("nothing is removed"), std::string::npos) << error_of(pruned);
    EXPECT_NE(error_of(pruned).find("image "), std::string::npos);
    EXPECT_TRUE(std::filesystem::exists(path(2)));
}

// Only the image that the service made is removed, not another file under its name.
TEST_F(ServiceTest, WhatIsNotOursStays)
{
    Blocks file(20, 4096);
    add(file.bytes());
    file.change(0);
    add(file.bytes());
    ASSERT_TRUE(open(Service::Use::write)->merge({.number = 2}));
    std::filesystem::remove(path(1));
    spew(path(1), std::vector<uint8_t>(10, 'x'));
    ASSERT_TRUE(open(Service::Use::write)->prune({.keep = 1}, false));
    EXPECT_EQ(slurp(path(1)).size(), 10u);
    expect_restored(2);
}

// If the place cannot be read, an image counts neither as gone nor as never made.
TEST_F(ServiceTest, WhatCannotBeSeenIsNotForgotten)
{
    Blocks file(20, 4096);
    std::filesystem::create_directory(dir_ / "place");
    spew(dir_ / "file", file.bytes());
    {
        auto service = open();
        ASSERT_TRUE(service->add({.file = dir_ / "file", .image = dir_ / "place/image"}));
    }
    copy_service("service", "before");
    file.change(0);
    spew(dir_ / "file", file.bytes());
    auto service = open();
    auto added = service->add({.file = dir_ / "file", .image = dir_ / "place/second"});
    ASSERT_TRUE(added) << error_of(added);
    service.reset();
    copy_service("before", "service");
    ASSERT_TRUE(save_pending(dir_ / "service", *added));
    std::filesystem::rename(dir_ / "place", dir_ / "away");
    spew(dir_ / "place", std::vector<uint8_t>(10, 'x')); // ENOTDIR
    auto refused = Service::open(dir_ / "service", Service::Use::write);
    ASSERT_FALSE(refused);
    EXPECT_NE(error_of(refused).find("cannot be known"), std::string::npos) << error_of(refused);
    EXPECT_TRUE(std::filesystem::exists(pending_path(dir_ / "service")));
    std::filesystem::remove(dir_ / "place");
    std::filesystem::rename(dir_ / "away", dir_ / "place");
    EXPECT_EQ(open(Service::Use::write)->state().entries.size(), 2u);
    // An image to be removed stays on the list until it can be seen.
    ASSERT_TRUE(open(Service::Use::write)->merge({.number = 2}));
    {
        auto state = State::load(dir_ / "service");
        ASSERT_TRUE(state);
        state->entries.front().state = DeltaState::removed;
        ASSERT_TRUE(state->save(dir_ / "service"));
    }
    std::filesystem::rename(dir_ / "place", dir_ / "away");
    spew(dir_ / "place", std::vector<uint8_t>(10, 'x'));
    EXPECT_FALSE(Service::open(dir_ / "service", Service::Use::write));
    EXPECT_EQ(State::load(dir_ / "service")->entries.size(), 2u);
    std::filesystem::remove(dir_ / "place");
    std::filesystem::rename(dir_ / "away", dir_ / "place");
    EXPECT_EQ(open(Service::Use::write)->state().entries.size(), 1u);
    EXPECT_FALSE(std::filesystem::exists(dir_ / "place/image"));
    EXPECT_TRUE(std::filesystem::exists(dir_ / "place/second"));
}

TEST_F(ServiceTest, ABaseThatIsGoneIsNamed)
{
    Blocks file(20, 4096);
    add(file.bytes());
    std::filesystem::remove(path(1));
    file.change(0);
    spew(dir_ / "file", file.bytes());
    auto service = open();
    auto added = service->add({.file = dir_ / "file", .image = path(2)});
    EXPECT_NE(error_of(added).find("version 1"), std::string::npos);
    EXPECT_NE(error_of(added).find("--complete"), std::string::npos) << error_of(added);
    EXPECT_FALSE(std::filesystem::exists(path(2)));
    auto complete = service->add({.file = dir_ / "file", .image = path(2), .complete = true});
    ASSERT_TRUE(complete) << error_of(complete);
    contents_.push_back(file.bytes());
    service.reset();
    expect_restored(2);
}

// A copy of the base beside the image that needs it is enough.
TEST_F(ServiceTest, ABaseMayMove)
{
    Blocks file(20, 4096);
    add(file.bytes());
    file.change(0);
    add(file.bytes());
    std::filesystem::rename(path(1), dir_ / "another-name");
    expect_restored(2);
}

// Interrupted between any two steps: the next command finds the directory as set up here.
TEST_F(ServiceTest, WhatWasInterruptedIsFinishedOrForgotten)
{
    Blocks file(40, 4096);
    for (size_t t = 0; t < 4; t++) {
        for (size_t i = 0; i < 4; i++) // enough to rebase now and then
            file.change(4 * t + i);
        if (t)
            copy_service("service", "before");
        Entry added = add(file.bytes());
        if (t == 0)
            continue;
        copy_service("service", "after");
        // Killed after the image got its name: the old state, with the pending note.
        copy_service("before", "service");
        ASSERT_TRUE(save_pending(dir_ / "service", added));
        EXPECT_EQ(open(Service::Use::read)->state().next, added.number + 1);
        EXPECT_TRUE(std::filesystem::exists(pending_path(dir_ / "service")));
        auto found = open();
        EXPECT_FALSE(std::filesystem::exists(pending_path(dir_ / "service")));
        auto expected = State::load(dir_ / "after");
        ASSERT_TRUE(expected);
        EXPECT_EQ(found->state().next, expected->next);
        EXPECT_EQ(found->state().base.image, expected->base.image);
        EXPECT_EQ(found->state().base.signature.blocks, expected->base.signature.blocks);
        EXPECT_EQ(found->state().previous.signature.blocks, expected->previous.signature.blocks);
        EXPECT_EQ(found->state().entries.size(), expected->entries.size());
        EXPECT_EQ(found->state().entries.back().checksum, added.checksum);
        found.reset();
        expect_restored(added.number);
        // Killed before that: there is no image with that id.
        Entry ghost = added;
        ghost.id.low ^= 1;
        ghost.number++;
        ASSERT_TRUE(save_pending(dir_ / "service", ghost));
        EXPECT_EQ(open()->state().next, added.number + 1);
    }
}

TEST_F(ServiceTest, AnInterruptedMergeInPlaceIsFinished)
{
    Blocks file(40, 4096);
    add(file.bytes());
    file.change(3);
    Entry old = add(file.bytes());
    copy_service("service", "before");
    auto merged = open(Service::Use::write)->merge({.number = 2});
    ASSERT_TRUE(merged) << error_of(merged);
    copy_service("before", "service");
    ASSERT_TRUE(save_pending(dir_ / "service", *merged));
    auto found = open(Service::Use::write);
    ASSERT_EQ(found->state().entries.size(), 2u);
    EXPECT_EQ(found->state().by_number(2)->checksum, merged->checksum);
    found.reset();
    EXPECT_EQ(needs(2), Numbers({2}));
    expect_restored(2);
    file.change(5);
    add(file.bytes());
    EXPECT_EQ(needs(3), Numbers({2, 3}));
    expect_restored(3);
}

TEST_F(ServiceTest, ItsOwnFilesAreCheckedToo)
{
    Blocks file(20, 4096);
    add(file.bytes());
    std::vector<uint8_t> state = slurp(state_path(dir_ / "service"));
    for (size_t at = 0; at < state.size(); at += 97) {
        std::vector<uint8_t> bad = state;
        bad[at] ^= 4;
        std::filesystem::remove(state_path(dir_ / "service"));
        spew(state_path(dir_ / "service"), bad);
        auto service = Service::open(dir_ / "service", Service::Use::read);
        if (service) { // tables that are stored twice
            EXPECT_EQ((*service)->state().base.signature.content(),
                      (*service)->finder().open(path(1)).operator->()->get()->about().content)
                << at;
        }
    }
    EXPECT_NE(error_of(Service::open(dir_ / "none", Service::Use::read)).find("cr_delta add"),
              std::string::npos);
}

} // namespace
} // namespace cryo::delta
