// SPDX-License-Identifier: Apache-2.0
//
// Snapshots without copies on nodes, looked at by ompi-restart --heal: what is damaged is named by
// the checksums in the images, and lost metadata of counted ranks are written again.
#include "coord/heal.hpp"

#include "sample.hpp"
#include "store.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <fstream>

namespace cryo::coord {
namespace {

namespace fs = std::filesystem;

constexpr uint32_t ranks = 3;

// One snapshot of real images, in a directory of its own.
class Healed
{
  public:
    explicit Healed(bool is_counted) : layout_(is_counted ? Layout::groups : Layout::alone)
    {
        Result<SnapshotWriter> writer = store_.begin();
        EXPECT_TRUE(writer);
        std::vector<SnapshotImage> images = Store::put_images(*writer, ranks, layout_);
        uint64_t bytes = 0;
        for (SnapshotImage &image : images) {
            const fs::path place = fs::path(writer->directory()) / place_of(image.rank, layout_);
            fs::remove(place / image.file);
            image::write_image(place / image.file, image::Model::random(image.rank + 1, 40));
            image.bytes = fs::file_size(place / image.file);
            image.is_counted = is_counted;
            bytes += image.bytes;
            const auto directory = Directory::open(place);
            EXPECT_TRUE(describe_image(*directory, image));
        }
        EXPECT_TRUE(is_counted ? writer->commit_counted(ranks, bytes)
                               : writer->commit(std::move(images)));
    }

    // What is wrong, or "".
    std::string heal(Look look = Look::contents)
    {
        said_.clear();
        const Result<SnapshotStore> all = SnapshotStore::open(store_.top());
        EXPECT_TRUE(all);
        const Result<void> done = coord::heal(*all, *all->latest(), Trust(), look, said_);
        return done ? "" : done.error().text();
    }
    std::string said() const { return fmt::format("{}", fmt::join(said_, "\n")); }
    const Store &store() const { return store_; }
    bool is_whole() const { return store_.finished().size() == 1; }
    fs::path directory(uint32_t rank) const { return store_.top() / "0" / place_of(rank, layout_); }
    fs::path image(uint32_t rank) const
    {
        return directory(rank) / image_name(500 + static_cast<int>(rank));
    }
    std::string text(uint32_t rank) const { return store_.read(Store::text_of(rank)); }

  private:
    Layout layout_;
    Store store_;
    std::vector<std::string> said_;
};

void change_byte(const fs::path &file, uint64_t at)
{
    fs::permissions(file, fs::perms::owner_read | fs::perms::owner_write);
    std::fstream stream(file, std::ios::in | std::ios::out | std::ios::binary);
    stream.seekg(static_cast<std::streamoff>(at));
    const int before = stream.get();
    stream.seekp(static_cast<std::streamoff>(at));
    stream.put(static_cast<char>(before ^ 1));
}

class Heal : public testing::TestWithParam<bool>
{};

TEST_P(Heal, WhatIsWholeStaysAsItIs)
{
    Healed healed(GetParam());
    const std::vector<std::string> before = healed.store().everything();
    EXPECT_EQ(healed.heal(), "");
    EXPECT_EQ(healed.said(), "");
    EXPECT_EQ(healed.store().everything(), before);
}

// Without a checksum of the file, those in the image show it.
TEST_P(Heal, ADamagedImageIsNamed)
{
    Healed healed(GetParam());
    for (const uint32_t rank : {1U, 2U})
        change_byte(healed.image(rank), fs::file_size(healed.image(rank)) / 2);
    EXPECT_EQ(healed.heal(Look::sizes), "");
    const std::string error = healed.heal();
    EXPECT_NE(error.find(healed.image(1).string()), std::string::npos) << error;
    EXPECT_NE(error.find("no node has a copy of it"), std::string::npos) << error;
    EXPECT_NE(healed.said().find(healed.image(2).string()), std::string::npos) << healed.said();
    EXPECT_FALSE(fs::exists(healed.store().top() / "0" / ".healed"));
}

INSTANTIATE_TEST_SUITE_P(Metadata, Heal, testing::Bool(),
                         [](const auto &one) { return one.param ? "count" : "list"; });

TEST(HealCounted, LostMetadataAreWrittenAgain)
{
    Healed healed(true);
    const std::vector<std::string> before = healed.store().everything();
    std::vector<std::string> texts;
    for (uint32_t rank = 0; rank < ranks; rank++)
        texts.push_back(healed.text(rank));
    fs::remove(healed.store().at(Store::text_of(0)));
    healed.store().write(Store::text_of(2), "# CONTEXT: ../../elsewhere\n");
    EXPECT_FALSE(healed.is_whole());
    EXPECT_EQ(healed.heal(Look::sizes).find(healed.directory(0).string()), 0U);
    EXPECT_EQ(healed.heal(), "");
    for (const uint32_t rank : {0U, 2U})
        EXPECT_NE(healed.said().find(
                      fmt::format("{}/{}", healed.directory(rank).string(), local_metadata_name)),
                  std::string::npos)
            << healed.said();
    for (uint32_t rank = 0; rank < ranks; rank++)
        EXPECT_EQ(healed.text(rank), texts[rank]);
    EXPECT_TRUE(healed.is_whole());
    EXPECT_EQ(healed.store().everything(), before);
    EXPECT_EQ(healed.heal(), "");
    EXPECT_EQ(healed.said(), "");
}

// The snapshot's metadata say the size of all images together.
TEST(HealCounted, NothingIsWrittenThatIsNotCertain)
{
    const auto expect_refused = [](Healed &healed, const std::string &why) {
        const std::string error = healed.heal();
        EXPECT_EQ(error.find(healed.directory(1).string()), 0U) << why << ": " << error;
        EXPECT_FALSE(fs::exists(healed.store().at(Store::text_of(1)))) << why;
        EXPECT_FALSE(healed.is_whole()) << why;
    };
    for (const std::string why : {"two images", "another size", "damage", "no image"}) {
        Healed healed(true);
        fs::remove(healed.store().at(Store::text_of(1)));
        const fs::path image = healed.image(1);
        if (why == "two images")
            fs::copy(image, healed.directory(1) / image_name(77));
        else if (why == "another size")
            fs::resize_file(image, fs::file_size(image) + 1);
        else if (why == "damage")
            change_byte(image, fs::file_size(image) / 2);
        else
            fs::remove(image);
        expect_refused(healed, why);
    }
}

} // namespace
} // namespace cryo::coord
