// SPDX-License-Identifier: Apache-2.0
//
// Images copied from one level to another: whole, under their name only when complete, no faster
// than asked.
#include "coord/image_copy.hpp"

#include "store.hpp"

#include <cerrno>

namespace cryo::coord {

namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;

Directory open(const Store &store, const std::string &name)
{
    std::filesystem::create_directories(store.at(name));
    Result<Directory> directory = Directory::open(store.at(name));
    EXPECT_TRUE(directory);
    return std::move(*directory);
}

TEST(ImageCopies, AreWhole)
{
    const Store store;
    std::string text; // of several pieces, the last of them not full
    while (text.size() < 1'000'000)
        text += "piece " + std::to_string(text.size());
    store.write("from/image", text);
    const Directory from = open(store, "from");
    const Directory to = open(store, "to");
    const Result<ImageCopy> made = copy_image(from, to, "image", {});
    ASSERT_TRUE(made) << made.error().text();
    EXPECT_EQ(made->bytes, text.size());
    EXPECT_EQ(store.read("to/image"), text);
    EXPECT_EQ(std::filesystem::status(store.at("to/image")).permissions(),
              std::filesystem::perms::owner_read);
    EXPECT_TRUE(is_image_checksum(made->checksum));
    const Result<ImageCopy> again = measure_image(to, "image");
    ASSERT_TRUE(again);
    EXPECT_EQ(again->checksum, made->checksum);
    EXPECT_EQ(again->bytes, made->bytes);
    text[700'000] ^= 1;
    std::filesystem::remove(store.at("to/image"));
    store.write("to/image", text);
    const Result<ImageCopy> other = measure_image(to, "image");
    ASSERT_TRUE(other);
    EXPECT_NE(other->checksum, made->checksum);
}

TEST(ImageCopies, LeaveNothingWhenTheyFail)
{
    const Store store;
    store.write("from/image", "text");
    store.write("to/image", "another");
    const Directory from = open(store, "from");
    const Directory to = open(store, "to");
    const auto before = store.everything();
    const Result<ImageCopy> taken = copy_image(from, to, "image", {});
    ASSERT_FALSE(taken); // no image is replaced
    EXPECT_EQ(taken.error().code(), EEXIST);
    EXPECT_EQ(store.everything(), before);
    EXPECT_EQ(store.read("to/image"), "another");
    const Result<ImageCopy> none = copy_image(from, to, "nothing", {});
    ASSERT_FALSE(none);
    EXPECT_EQ(none.error().code(), ENOENT);
    EXPECT_EQ(store.everything(), before);
}

TEST(ImageCopies, FollowNoLink)
{
    const Store store;
    store.write("elsewhere", "secret");
    const Directory from = open(store, "from");
    const Directory to = open(store, "to");
    std::filesystem::create_symlink(store.at("elsewhere"), store.at("from/image"));
    EXPECT_FALSE(copy_image(from, to, "image", {}));
    EXPECT_FALSE(measure_image(from, "image"));
}

TEST(ImageCopies, AreOfNothingThatOthersWrite)
{
    const Store store;
    store.write("from/image", "text");
    const Directory from = open(store, "from");
    const Directory to = open(store, "to");
    std::filesystem::permissions(store.at("from/image"), std::filesystem::perms::all);
    const auto before = store.everything();
    const Result<ImageCopy> made = copy_image(from, to, "image", {});
    ASSERT_FALSE(made);
    EXPECT_EQ(made.error().code(), EACCES);
    EXPECT_EQ(store.everything(), before);
}

TEST(ImageCopies, RestAsTheLimitWants)
{
    EXPECT_EQ(pause_after(1 << 30, nanoseconds(0), 0), nanoseconds(0));
    EXPECT_EQ(pause_after(1000, milliseconds(0), 1000), milliseconds(1000));
    EXPECT_EQ(pause_after(1000, milliseconds(400), 1000), milliseconds(600));
    EXPECT_EQ(pause_after(1000, milliseconds(1400), 1000), nanoseconds(0));
}

TEST(ImageCopies, GrowEverySecondWithALimit)
{
    EXPECT_EQ(piece_at(1), 1U);
    EXPECT_EQ(piece_at(4096), 4096U); // 1 MiB a second, on a node of 256 ranks
    EXPECT_EQ(piece_at(100 << 20), piece_at(0));
    EXPECT_LE(piece_at(0), 1U << 20);
}

TEST(ImageCopies, KnowTheirChecksums)
{
    EXPECT_TRUE(is_image_checksum("0123456789abcdef0123456789abcdef"));
    for (const char *text :
         {"", "0123456789abcdef0123456789abcde", "0123456789ABCDEF0123456789ABCDEF",
          "0123456789abcdef0123456789abcde\n"})
        EXPECT_FALSE(is_image_checksum(text)) << text;
}

} // namespace

} // namespace cryo::coord
