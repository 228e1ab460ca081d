// SPDX-License-Identifier: Apache-2.0
//
// Images in directories of nodes: whose they are, which of them stay, and which are used.
#include "coord/local_level.hpp"

#include "coord/image_copy.hpp"
#include "coord/snapshot_text.hpp"
#include "store.hpp"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <optional>
#include <sys/file.h>
#include <sys/inotify.h>
#include <unistd.h>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

using Names = std::vector<std::string>;

std::string top_name()
{
    return "cryo-" + std::to_string(geteuid());
}

// What is in the user's directory there.
Names levels_in(const Store &store)
{
    Names names;
    for (const auto &one : fs::directory_iterator(store.at(top_name())))
        names.push_back(one.path().filename());
    std::sort(names.begin(), names.end());
    return names;
}

LocalLevel begin(const Store &store, const std::string &name, const std::string &job)
{
    Result<LocalLevel> level = LocalLevel::begin(store.base(), name, job);
    EXPECT_TRUE(level) << level.error().text();
    return std::move(*level);
}

// A level of one image that is as the metadata say.
LocalCopy copy_in(const Store &store, const std::string &text)
{
    const LocalLevel level = begin(store, "abc", "1-a");
    const Result<std::string> directory = level.make_rank(0);
    EXPECT_TRUE(directory);
    EXPECT_EQ(*directory, local_rank_directory(store.base(), geteuid(), "abc", 0));
    store.write(fs::relative(*directory + "/cryo_context.9", store.base()), text);
    const Result<Directory> opened = Directory::open(*directory);
    EXPECT_TRUE(opened);
    const Result<ImageCopy> found = measure_image(*opened, "cryo_context.9");
    EXPECT_TRUE(found);
    return {*directory, "cryo_context.9", found->bytes, found->checksum};
}

TEST(LocalLevels, StayAsLongAsTheyShould)
{
    const LevelThere running = {
        .name = "running", .job = "2", .when = 1, .committed = true, .in_use = true};
    const LevelThere begun = {.name = "begun", .job = "1", .in_use = true};
    const LevelThere left = {.name = "left", .job = "1"};
    const auto level = [](const char *name, const char *job, int64_t when) {
        return LevelThere{.name = name, .job = job, .when = when, .committed = true};
    };
    EXPECT_EQ(retired({}, "1", 1), Names());
    EXPECT_EQ(retired({running, begun, left}, "1", 1), Names{"left"});
    EXPECT_EQ(retired({level("a", "1", 1), level("c", "1", 3), level("b", "1", 2)}, "1", 1),
              (Names{"b", "a"}));
    EXPECT_EQ(retired({level("a", "1", 1), level("c", "1", 3), level("b", "1", 2)}, "1", 2),
              Names{"a"});
    // Ended jobs share what stays; a running one's is not counted, and never goes.
    EXPECT_EQ(
        retired({level("x", "7", 1), level("y", "8", 2), level("a", "1", 3), running}, "1", 1),
        Names{"x"});
    // Nor do that job's earlier ones, of which it may keep several.
    EXPECT_EQ(retired({level("x", "7", 1), level("y", "8", 2), level("ran", "2", 0), running,
                       level("ran before", "2", -1)},
                      "1", 1),
              Names{"x"});
    LevelThere own = level("now", "1", 3);
    own.in_use = true;
    EXPECT_EQ(retired({own, level("before", "1", 2)}, "1", 1), Names{"before"});
}

TEST(LocalLevels, StayIfTheyAreTheLastWithParity)
{
    const auto level = [](const char *name, int64_t when, bool has_parity) {
        return LevelThere{
            .name = name, .job = "1-a", .when = when, .committed = true, .has_parity = has_parity};
    };
    const std::vector<std::string> one = {"a"};
    EXPECT_EQ(retired({level("a", 1, true), level("b", 2, true), level("c", 3, false)}, "1-a", 1),
              one);
    EXPECT_EQ(retired({level("a", 1, true), level("b", 2, true)}, "1-a", 1), one);
    EXPECT_EQ(retired({level("a", 1, false), level("b", 2, true), level("c", 3, true)}, "1-a", 2),
              one);
    // A restarted job is another one, and may have no parity yet.
    EXPECT_EQ(retired({level("a", 1, true), level("b", 2, true), level("c", 3, false)}, "2-b", 1),
              one);
}

TEST(LocalLevels, AreClaimedByOneNode)
{
    const Store store;
    const LocalLevel level = begin(store, "alone", "1-a");
    EXPECT_TRUE(level.claim("n1"));
    const Result<void> other = level.claim("n2");
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code(), EEXIST);
    EXPECT_NE(other.error().text().find("node n1"), std::string::npos);
    const std::string path = level.directory().path();
    EXPECT_TRUE(hold_level_of("n1", path, Trust()));
    EXPECT_TRUE(hold_level_of("n1/2", path, Trust()));
    const Result<NearLevel> held = hold_level_of("n2", path, Trust());
    ASSERT_FALSE(held);
    EXPECT_EQ(held.error().code(), ENOENT);
    EXPECT_NE(held.error().text().find("of node n1, not of n2"), std::string::npos);
    EXPECT_TRUE(hold_level_of("n2", begin(store, "shared", "1-a").directory().path(), Trust()));
    EXPECT_EQ(base_of_node("/s/%N/x%N", "n1"), "/s/n1/xn1");
    EXPECT_EQ(base_of_node("/s", "n1"), "/s");
}

TEST(LocalLevels, GoUnlessCommittedOrUsed)
{
    const Store store;
    std::optional<LocalLevel> used = begin(store, "used", "1-a");
    {
        const LocalLevel committed = begin(store, "committed", "1-a");
        ASSERT_TRUE(committed.make_rank(3));
        ASSERT_TRUE(committed.commit());
        const LocalLevel lost = begin(store, "lost", "1-a");
        ASSERT_TRUE(lost.make_rank(3));
    }
    store.write(top_name() + "/foreign/file", "not one of Cryo's");
    retire_levels(store.base(), "1-a", 1);
    EXPECT_EQ(levels_in(store), (Names{"committed", "foreign", "used"}));
    used.reset();
    retire_levels(store.base(), "1-a", 0);
    EXPECT_EQ(levels_in(store), Names{"foreign"});
    EXPECT_EQ(store.read(top_name() + "/foreign/file"), "not one of Cryo's");
}

// A removal may be killed at any step: what is left must be known as a level, and as no committed
// one.
TEST(LocalLevels, LoseWhatMakesThemLevelsLast)
{
    const Store store;
    {
        const LocalLevel level = begin(store, "gone", "1-a");
        for (const uint32_t rank : {0U, 1U, 2U})
            ASSERT_TRUE(level.make_rank(rank));
        ASSERT_TRUE(level.commit());
    }
    const Fd watch(inotify_init1(IN_NONBLOCK | IN_CLOEXEC));
    ASSERT_GE(inotify_add_watch(watch.get(), store.at(top_name() + "/gone").c_str(), IN_DELETE), 0);
    retire_levels(store.base(), "1-a", 0);
    EXPECT_EQ(levels_in(store), Names());
    alignas(inotify_event) char events[4096];
    const ssize_t size = read(watch.get(), events, sizeof(events));
    Names order;
    for (ssize_t at = 0; at < size;) {
        const auto *event = reinterpret_cast<const inotify_event *>(events + at);
        if ((event->mask & IN_DELETE) != 0)
            order.emplace_back(event->name);
        at += static_cast<ssize_t>(sizeof(inotify_event) + event->len);
    }
    ASSERT_EQ(order.size(), 5U);
    EXPECT_EQ(order.front(), "committed");
    EXPECT_EQ(order.back(), "level");
}

TEST(LocalLevels, AreOfTwoDaemonsOnOneHost)
{
    const Store store;
    std::optional<LocalLevel> first = begin(store, "both", "1-a");
    const LocalLevel second = begin(store, "both", "1-a");
    ASSERT_TRUE(first->make_rank(0));
    ASSERT_TRUE(second.make_rank(1));
    first.reset();
    retire_levels(store.base(), "1-a", 1);
    EXPECT_EQ(levels_in(store), Names{"both"});
}

TEST(LocalLevels, AreNotMadeWhereOthersMayWrite)
{
    const Store store;
    fs::create_directory(store.at(top_name()));
    fs::permissions(store.at(top_name()), fs::perms::all);
    const Result<LocalLevel> open = LocalLevel::begin(store.base(), "abc", "1-a");
    ASSERT_FALSE(open);
    EXPECT_EQ(open.error().code(), EACCES);
    fs::remove(store.at(top_name()));
    fs::create_directory(store.at("elsewhere"));
    fs::create_directory_symlink(store.at("elsewhere"), store.at(top_name()));
    EXPECT_FALSE(LocalLevel::begin(store.base(), "abc", "1-a"));
    const Result<LocalLevel> none = LocalLevel::begin(store.base() + "/none", "abc", "1-a");
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), ENOENT);
}

TEST(LocalLevels, AreClosedToOthers)
{
    const Store store;
    fs::create_directory(store.at(top_name()));
    fs::permissions(store.at(top_name()), fs::perms(0755));
    begin(store, "abc", "1-a");
    EXPECT_EQ(fs::status(store.at(top_name())).permissions(), fs::perms::owner_all);
}

TEST(LocalLevels, AreUsedIfTheyAreWhatWasSaved)
{
    const Store store;
    const LocalCopy copy = copy_in(store, "the image");
    const fs::path file = fs::path(copy.directory) / copy.file;
    const Result<NearCopy> found = find_copy(copy, Trust());
    ASSERT_TRUE(found) << found.error().text();
    EXPECT_EQ(found->path, file.string());
    std::ofstream(file) << "the imagE";
    const Result<NearCopy> other = find_copy(copy, Trust());
    ASSERT_FALSE(other);
    EXPECT_EQ(other.error().code(), EBADMSG);
    std::ofstream(file) << "the image, longer";
    EXPECT_FALSE(find_copy(copy, Trust()));
    std::ofstream(file) << "the image";
    ASSERT_TRUE(find_copy(copy, Trust()));
    fs::permissions(file, fs::perms::all);
    EXPECT_FALSE(find_copy(copy, Trust()));
    fs::permissions(file, fs::perms::owner_read);
    ASSERT_TRUE(find_copy(copy, Trust()));
    fs::permissions(store.at(top_name()), fs::perms::all);
    EXPECT_FALSE(find_copy(copy, Trust()));
    fs::permissions(store.at(top_name()), fs::perms::owner_all);
    fs::remove(file);
    const Result<NearCopy> none = find_copy(copy, Trust());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), ENOENT);
}

// Reading a large image takes long enough for another job to commit a snapshot.
TEST(LocalLevels, StayWhileTheyAreRead)
{
    const Store store;
    const LocalCopy copy = copy_in(store, "the image");
    {
        const Result<NearCopy> found = find_copy(copy, Trust());
        ASSERT_TRUE(found) << found.error().text();
        retire_levels(store.base(), "2-b", 1);
        EXPECT_TRUE(fs::exists(found->path));
    }
    retire_levels(store.base(), "2-b", 1);
    const Result<NearCopy> none = find_copy(copy, Trust());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), ENOENT);
}

TEST(LocalLevels, AreNotReadWhileTheyAreRemoved)
{
    const Store store;
    const LocalCopy copy = copy_in(store, "the image");
    const Fd label(open(store.at(top_name() + "/abc/level").c_str(), O_RDWR | O_CLOEXEC));
    ASSERT_EQ(flock(label.get(), LOCK_EX), 0);
    const Result<NearCopy> none = find_copy(copy, Trust());
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), ENOENT);
}

TEST(LocalLevels, AreInTheMetadata)
{
    const std::string checksum = "0123456789abcdef0123456789abcdef";
    SnapshotImage image = {3, 9, "node", "cryo_context.9", 17, checksum, "/l/cryo-0/abc/r"};
    const std::optional<LocalCopy> copy = local_copy_in(local_metadata_text(image));
    ASSERT_TRUE(copy);
    EXPECT_EQ(copy->directory, image.local);
    EXPECT_EQ(copy->file, image.file);
    EXPECT_EQ(copy->bytes, 17U);
    EXPECT_EQ(copy->checksum, checksum);
    SnapshotImage plain = {4, 10, "node", "cryo_context.10", 18};
    EXPECT_FALSE(local_copy_in(local_metadata_text(plain)));
    Snapshot snapshot = {.seq = 0, .finished = true, .mark = "Cryo snapshot 0"};
    snapshot.images = {image, plain};
    const Result<std::map<int, Snapshot>> read = parse_metadata(metadata_text({{0, snapshot}}));
    ASSERT_TRUE(read) << read.error().text();
    const Snapshot &again = read->at(0);
    EXPECT_EQ(again.local_images(), 1U);
    EXPECT_EQ(again.images.at(0).local, image.local);
    EXPECT_EQ(again.images.at(0).checksum, checksum);
    EXPECT_EQ(again.images.at(1).local, "");
    // A line that names no image beside it, or is damaged, names no copy.
    for (const auto &[from, to] :
         {std::pair("# CONTEXT: cryo", "# CONTEXT: ../x"), std::pair("Checksum: 0", "Checksum: x"),
          std::pair("Local: /", "Local: "), std::pair("Bytes: 17", "Bytes: -1")}) {
        std::string text = local_metadata_text(image);
        ASSERT_NE(text.find(from), std::string::npos) << from;
        text.replace(text.find(from), strlen(from), to);
        EXPECT_FALSE(local_copy_in(text)) << to;
    }
}

TEST(LocalLevels, AreBlamedForWhatADiskDoes)
{
    for (const int error : {ENOSPC, EDQUOT, EFBIG, EIO, EROFS})
        EXPECT_TRUE(is_trouble_of_the_disk(error)) << error;
    for (const int error : {0, ESRCH, EINTR, EINVAL, ETIMEDOUT})
        EXPECT_FALSE(is_trouble_of_the_disk(error)) << error;
}

TEST(LocalLevels, AreTriedAgainWhenThereIsMoreRoom)
{
    EXPECT_FALSE(has_more_room(1000, 1000));
    EXPECT_FALSE(has_more_room(10, 1000));
    EXPECT_FALSE(has_more_room(1250, 1000));
    EXPECT_TRUE(has_more_room(1251, 1000));
    EXPECT_FALSE(has_more_room(0, 0)); // nobody knows
    const Store store;
    EXPECT_GT(room_in(store.base()), 0U);
    EXPECT_EQ(room_in(store.base() + "/none"), 0U);
}

} // namespace

} // namespace cryo::coord
