// SPDX-License-Identifier: Apache-2.0
#include "server/depot.hpp"

#include "../scratch.hpp"
#include "image/checksum.hpp"

#include <cerrno>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>

namespace cryo::server {

namespace {

class DepotTest : public testing::Test
{
  protected:
    DepotTest() { umask(0022); }

    std::unique_ptr<Depot> open(uint64_t quota = 0)
    {
        Result<std::unique_ptr<Depot>> depot = Depot::open(place(), quota);
        EXPECT_TRUE(depot) << depot.error().text();
        return std::move(*depot);
    }
    std::string place() const { return dir_ / "images"; }
    std::string place(const std::string &name) const { return place() + "/" + name; }
    size_t files() const // besides the lock
    {
        return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(place()),
                                                 std::filesystem::directory_iterator())) -
               1;
    }
    void write(const std::string &name, const std::string &text)
    {
        std::ofstream(place(name)) << text;
    }

    Scratch dir_;
};

image::Bytes bytes_of(const std::string &text)
{
    return {reinterpret_cast<const uint8_t *>(text.data()), text.size()};
}

std::string checksum_of(const std::string &text)
{
    return image::checksum128(bytes_of(text)).hex();
}

// 0, or why not.
int put(Depot &depot, const ImageName &name, const std::string &text,
        Existing existing = Existing::refuse)
{
    const auto incoming = depot.begin(name, text.size(), existing, "n1");
    if (!incoming)
        return incoming.error().code();
    Result<void> done = (*incoming)->add(bytes_of(text));
    if (done)
        done = (*incoming)->compare(checksum_of(text));
    if (done)
        done = (*incoming)->publish();
    if (!done)
        return done.error().code();
    return depot.enter(**incoming) ? 0 : EIO;
}

std::string contents(const Depot &depot, const ImageName &name)
{
    const Result<StoredImage> found = depot.find(name);
    const Result<Fd> fd = found ? depot.open_image(*found) : found.error();
    if (!fd)
        return fd.error().text();
    std::string text(found->bytes, '\0');
    return pread(fd->get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size())
               ? text
               : "too short";
}

} // namespace

TEST_F(DepotTest, KeepsWhatItWasGivenOverAnEnd)
{
    {
        const auto depot = open();
        EXPECT_EQ(0, put(*depot, {"s", "a"}, "one"));
        EXPECT_EQ(0, put(*depot, {"", "a"}, "two"));
        EXPECT_EQ(0, put(*depot, {"s", "empty"}, ""));
    }
    struct stat status = {};
    ASSERT_EQ(0, stat(place().c_str(), &status));
    EXPECT_EQ(0700U, status.st_mode & 07777U);
    const auto depot = open();
    EXPECT_EQ(3U, depot->images().size());
    EXPECT_EQ(6U, depot->used());
    EXPECT_EQ("one", contents(*depot, {"s", "a"}));
    EXPECT_EQ("two", contents(*depot, {"", "a"}));
    EXPECT_EQ("", contents(*depot, {"s", "empty"}));
    EXPECT_EQ(checksum_of("one"), depot->find({"s", "a"})->checksum);
    EXPECT_EQ(0, put(*depot, {"s", "b"}, "three"));
    EXPECT_GT(depot->find({"s", "b"})->number, depot->find({"s", "empty"})->number);
}

TEST_F(DepotTest, ReplacesOnlyWhenAsked)
{
    const auto depot = open();
    ASSERT_EQ(0, put(*depot, {"", "a"}, "one"));
    EXPECT_EQ(EEXIST, put(*depot, {"", "a"}, "other"));
    EXPECT_EQ("one", contents(*depot, {"", "a"}));
    const Result<Fd> reader = depot->open_image(*depot->find({"", "a"}));
    EXPECT_EQ(0, put(*depot, {"", "a"}, "other", Existing::replace));
    EXPECT_EQ("other", contents(*depot, {"", "a"}));
    char text[4] = {};
    EXPECT_EQ(3, pread(reader->get(), text, 3, 0)); // what is open stays readable
    EXPECT_STREQ("one", text);
    EXPECT_EQ(1U, files());
    EXPECT_EQ(5U, depot->used());
}

TEST_F(DepotTest, NothingOfAnUnfinishedImageIsThere)
{
    const auto depot = open();
    ASSERT_EQ(0, put(*depot, {"", "a"}, "one"));
    {
        const auto incoming = depot->begin({"", "a"}, 10, Existing::replace, "n1");
        ASSERT_TRUE(incoming);
        EXPECT_TRUE((*incoming)->add(bytes_of("half ")));
        EXPECT_EQ("one", contents(*depot, {"", "a"}));
        const Result<void> more = (*incoming)->add(bytes_of("too much"));
        ASSERT_FALSE(more);
        EXPECT_EQ(EFBIG, more.error().code());
        const Result<void> less = (*incoming)->compare(checksum_of("half "));
        ASSERT_FALSE(less);
        EXPECT_EQ(EBADMSG, less.error().code());
    }
    {
        const auto incoming = depot->begin({"", "b"}, 3, Existing::refuse, "n1");
        EXPECT_TRUE((*incoming)->add(bytes_of("two")));
        EXPECT_EQ(EBADMSG, (*incoming)->compare(checksum_of("twO")).error().code());
    }
    EXPECT_EQ(1U, files());
    EXPECT_EQ("one", contents(*depot, {"", "a"}));
}

TEST_F(DepotTest, TakesAwayWhatAServerThatWasKilledHasLeft)
{
    const auto name = [](uint64_t number, const std::string &text) {
        return StoredImage{.image = {"s", "a"}, .number = number, .checksum = checksum_of(text)}
            .file();
    };
    ASSERT_EQ(0, mkdir(place().c_str(), 0700));
    write(".incoming.9", "half");
    write(name(9, "old"), "old");
    write(name(10, "newest"), "newest"); // comes first by name
    write(name(2, "oldest"), "oldest");
    const auto depot = open();
    EXPECT_EQ("newest", contents(*depot, {"s", "a"}));
    EXPECT_EQ(6U, depot->used());
    EXPECT_EQ(1U, files());
}

TEST_F(DepotTest, LeavesAloneWhatItHasNotMade)
{
    ASSERT_EQ(0, mkdir(place().c_str(), 0700));
    const std::string sum = checksum_of("x");
    const std::vector<std::string> names = {"notes",       "a~1",         "a~1~" + sum.substr(1),
                                            "a~01~" + sum, ".a~1~" + sum, "a,b,c~1~" + sum};
    for (const std::string &name : names)
        write(name, "x");
    ASSERT_EQ(0, symlink("notes", place("link~1~" + sum).c_str()));
    ASSERT_EQ(0, mkdir(place("dir~1~" + sum).c_str(), 0700));
    const auto depot = open();
    EXPECT_EQ(names.size() + 2, depot->others().size());
    EXPECT_EQ(names.size() + 2, files());
    EXPECT_TRUE(depot->images().empty());
}

TEST_F(DepotTest, BelongsToOneServerAndItsUser)
{
    const auto depot = open();
    const auto second = Depot::open(place(), 0);
    ASSERT_FALSE(second);
    EXPECT_EQ(EBUSY, second.error().code());
    ASSERT_EQ(0, mkdir((dir_ / "open").c_str(), 0755));
    EXPECT_EQ(EACCES, Depot::open(dir_ / "open", 0).error().code());
    ASSERT_EQ(0, symlink(place().c_str(), (dir_ / "link").c_str()));
    EXPECT_EQ(ELOOP, Depot::open(dir_ / "link", 0).error().code());
}

TEST_F(DepotTest, AQuotaCountsWhatIsOnItsWay)
{
    const auto depot = open(10);
    ASSERT_EQ(0, put(*depot, {"", "a"}, "12345"));
    {
        const auto incoming = depot->begin({"", "b"}, 4, Existing::refuse, "n1");
        ASSERT_TRUE(incoming);
        EXPECT_EQ(EDQUOT, put(*depot, {"", "c"}, "12"));
        EXPECT_EQ(0, put(*depot, {"", "c"}, "1"));
    }
    EXPECT_EQ(EDQUOT, depot->begin({"", "d"}, ~uint64_t(0), Existing::refuse, "n1").error().code());
    EXPECT_EQ(EDQUOT,
              put(*depot, {"", "a"}, "54321", Existing::replace)); // both are there for a time
    EXPECT_EQ(0, put(*depot, {"", "d"}, "1234"));
    ASSERT_TRUE(depot->remove({"", "a"}, checksum_of("12345")));
    EXPECT_EQ(5U, depot->used());
    EXPECT_EQ(0, put(*depot, {"", "a"}, "54321"));
}

TEST_F(DepotTest, ADiskThatHasNoRoomIsNamedBeforeAnythingIsSent)
{
    const auto depot = open();
    const auto begun = depot->begin({"", "a"}, uint64_t(1) << 59, Existing::refuse, "n1");
    ASSERT_FALSE(begun);
    EXPECT_EQ(ENOSPC, begun.error().code());
    EXPECT_EQ(0, put(*depot, {"", "a"}, "one"));
}

TEST_F(DepotTest, ANameIsSentByOneClientAtATime)
{
    const auto depot = open();
    {
        const auto incoming = depot->begin({"", "a"}, 3, Existing::refuse, "n1");
        ASSERT_TRUE(incoming);
        const auto second = depot->begin({"", "a"}, 3, Existing::replace, "n2");
        ASSERT_FALSE(second);
        EXPECT_EQ(EBUSY, second.error().code());
        EXPECT_NE(std::string::npos, second.error().text().find("of node n1"));
    }
    EXPECT_EQ(0, put(*depot, {"", "a"}, "one"));
}

TEST_F(DepotTest, RemovesOnlyTheImageThatIsMeant)
{
    const auto depot = open();
    ASSERT_EQ(0, put(*depot, {"", "a"}, "one"));
    EXPECT_EQ(ESTALE, depot->remove({"", "a"}, checksum_of("two")).error().code());
    EXPECT_EQ(ENOENT, depot->remove({"", "b"}, checksum_of("one")).error().code());
    EXPECT_TRUE(depot->remove({"", "a"}, checksum_of("one")));
    EXPECT_EQ(0U, files());
}

TEST_F(DepotTest, AFileThatWasCutIsNoImage)
{
    const auto depot = open();
    ASSERT_EQ(0, put(*depot, {"", "a"}, "one"));
    const std::string file = place(depot->find({"", "a"})->file());
    ASSERT_EQ(0, chmod(file.c_str(), 0600));
    ASSERT_EQ(0, truncate(file.c_str(), 2));
    EXPECT_EQ(EBADMSG, depot->open_image(*depot->find({"", "a"})).error().code());
}

} // namespace cryo::server
