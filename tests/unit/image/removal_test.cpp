// SPDX-License-Identifier: Apache-2.0
//
// What is removed to make room for a new image, and what is not: all that is not Cryo's.
#include <algorithm>
#include <filesystem>
#include <sys/stat.h>

#include "image/base_finder.hpp"
#include "image/snapshot.hpp"
#include "sample.hpp"

namespace cryo::image {
namespace {

namespace fs = std::filesystem;

const std::vector<uint8_t> kMine(10, 'x');

Result<Committed> save(const std::string &path, const FileOptions &options)
{
    auto sink = FileSink::create(path, options);
    if (!sink)
        return sink.error();
    auto writer = ImageWriter::create(std::move(*sink), {});
    if (!writer)
        return writer.error();
    feed_model(**writer, Model::random(1, 4));
    return (*writer)->commit();
}

Result<Committed> save_tree(const std::string &path,
                            const FileOptions &options = {.existing = Existing::replace,
                                                          .sync = false})
{
    auto tree = create_directory(path, options);
    if (!tree)
        return tree.error();
    for (uint32_t pid = 7; pid < 9; pid++) {
        auto writer = (*tree)->begin_member({});
        if (!writer)
            return writer.error();
        feed_model(**writer, Model::random(pid, 4));
        if (auto done = (*tree)->end_member(**writer, {.pid = pid}); !done)
            return done;
    }
    return (*tree)->commit({.scope = Scope::tree, .root_pid = 7});
}

std::vector<std::string> names(const fs::path &directory)
{
    std::vector<std::string> all;
    for (const auto &one : fs::directory_iterator(directory))
        all.push_back(one.path().filename());
    std::ranges::sort(all);
    return all;
}

ino_t number_of(const fs::path &path)
{
    struct stat status = {};
    EXPECT_EQ(0, stat(path.c_str(), &status));
    return status.st_ino;
}

// The name stays with the last complete save.
TEST(Backups, ADirectoryThatCannotBeKeptAsideKeepsItsName)
{
    Scratch dir;
    ASSERT_TRUE(save_tree(dir / "tree"));
    const ino_t before = number_of(dir / "tree");
    EXPECT_FALSE(save_tree(
        dir / "tree",
        {.existing = Existing::backup, .backup = {.name = dir / "nowhere/old"}, .sync = false}));
    EXPECT_EQ(before, number_of(dir / "tree"));
    EXPECT_EQ(std::vector<std::string>{"tree"}, names(fs::path(dir / "tree").parent_path()));
}

TEST(Publication, OfADirectory)
{
    for (const Existing existing : {Existing::replace, Existing::backup}) {
        for (const bool was_there : {false, true}) {
            Scratch dir;
            if (was_there) {
                ASSERT_TRUE(save_tree(dir / "tree"));
            }
            const ino_t before = was_there ? number_of(dir / "tree") : 0;
            Publication publication([](const std::string &) { return Result<void>(); });
            const FileOptions options{.existing = existing,
                                      .backup = {.name = dir / "old"},
                                      .sync = false,
                                      .publication = &publication};
            ASSERT_TRUE(save_tree(dir / "tree", options));
            EXPECT_NE(before, number_of(dir / "tree"));
            ASSERT_TRUE(publication.take_back());
            EXPECT_EQ(before, was_there ? number_of(dir / "tree") : 0);
            const std::vector<std::string> left = names(fs::path(dir / "tree").parent_path());
            EXPECT_EQ(left,
                      was_there ? std::vector<std::string>{"tree"} : std::vector<std::string>());
            if (!was_there)
                continue;
            ASSERT_TRUE(save_tree(dir / "tree", options));
            // Foreign files are never removed along, neither by a backup nor by a take-back.
            spew(dir / "tree/notes", kMine);
            EXPECT_FALSE(publication.take_back());
            EXPECT_EQ(before, number_of(dir / "tree"));
        }
    }
}

TEST(Publication, AnotherDirectoryIsNotTakenBack)
{
    Scratch dir;
    Publication publication([](const std::string &) { return Result<void>(); });
    ASSERT_TRUE(save_tree(
        dir / "tree", {.existing = Existing::replace, .sync = false, .publication = &publication}));
    fs::rename(dir / "tree", dir / "elsewhere");
    ASSERT_TRUE(save_tree(dir / "tree"));
    const ino_t others = number_of(dir / "tree");
    EXPECT_FALSE(publication.take_back());
    EXPECT_EQ(others, number_of(dir / "tree"));
}

TEST(Backups, OnlyImagesAreTooOld)
{
    Scratch dir;
    const FileOptions options{.existing = Existing::backup, .backup = {.keep = 1}, .sync = false};
    spew(dir / "image.~1~", kMine);
    fs::create_directory(dir / "image.~2~");
    spew(dir / "image.~2~/mine", kMine);
    for (int i = 0; i < 4; i++)
        ASSERT_TRUE(save(dir / "image", options));
    EXPECT_EQ(slurp(dir / "image.~1~"), kMine);
    EXPECT_EQ(slurp(dir / "image.~2~/mine"), kMine);
    EXPECT_FALSE(fs::exists(dir / "image.~3~"));
    EXPECT_TRUE(fs::exists(dir / "image.~5~"));
}

TEST(Backups, ANamedOneReplacesAnImageOnly)
{
    Scratch dir;
    const FileOptions options{
        .existing = Existing::backup, .backup = {.name = dir / "before"}, .sync = false};
    ASSERT_TRUE(save(dir / "image", options));
    const auto id = id_of_file(dir / "image");
    spew(dir / "before", kMine);
    auto refused = save(dir / "image", options);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().text().find("choose another name"), std::string::npos);
    EXPECT_EQ(slurp(dir / "before"), kMine);
    EXPECT_EQ(id_of_file(dir / "image"), id);
    fs::remove(dir / "before");
    ASSERT_TRUE(save(dir / "image", options));
    ASSERT_TRUE(save(dir / "image", options)); // the second one replaces an image
    EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"before", "image"}));
}

TEST(Trees, ADirectoryIsReplacedThatHasNothingElse)
{
    Scratch dir;
    ASSERT_TRUE(save_tree(dir / "tree"));
    ASSERT_TRUE(save_tree(dir / "tree"));
    EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"tree"}));
    EXPECT_EQ(names(dir / "tree"), (std::vector<std::string>{"context.7", "context.8", kTreeFile}));
}

TEST(Trees, WhatIsNoneOfItsImagesStays)
{
    Scratch dir;
    ASSERT_TRUE(save_tree(dir / "tree"));
    const auto expect_refused = [&] {
        const auto before = names(dir / "tree");
        auto refused = save_tree(dir / "tree");
        ASSERT_FALSE(refused);
        EXPECT_EQ(refused.error().code(), ENOTEMPTY) << refused.error().text();
        EXPECT_EQ(names(dir / "tree"), before);
        EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"tree"}));
    };
    spew(dir / "tree/notes", kMine);
    expect_refused();
    fs::rename(dir / "tree/notes", dir / "tree/context.9");
    expect_refused();
    fs::remove(dir / "tree/context.9");
    fs::remove(dir / "tree/context.8");
    spew(dir / "tree/context.8", kMine); // another file under a member's name
    expect_refused();
    fs::remove(dir / "tree/context.8");
    const auto tree = slurp(dir / "tree/tree.cryo");
    for (const size_t size : {size_t(0), tree.size() / 2, tree.size() - 1}) {
        fs::remove(dir / "tree/tree.cryo");
        spew(dir / "tree/tree.cryo", {tree.data(), size});
        expect_refused();
    }
    fs::remove(dir / "tree/tree.cryo");
    fs::create_directory(dir / "tree/tree.cryo");
    expect_refused();
}

} // namespace
} // namespace cryo::image
