// SPDX-License-Identifier: Apache-2.0
//
// What is removed to make room for a new image, and what is not: all that is not Cryo's.
#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "flagless_renames.hpp"
#include "image/base_finder.hpp"
#include "image/snapshot.hpp"
#include "image/tree_directory.hpp"
#include "sample.hpp"

namespace cryo::image {
namespace {

namespace fs = std::filesystem;

const std::vector<uint8_t> kMine(10, 'x');

Result<Committed> save(const std::string &path, const FileOptions &options,
                       const WriterOptions &how = {})
{
    auto sink = FileSink::create(path, options);
    if (!sink)
        return sink.error();
    auto writer = ImageWriter::create(std::move(*sink), how);
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
    fs::create_directory(dir / "old");
    spew(dir / "old/notes", kMine);
    EXPECT_FALSE(
        save_tree(dir / "tree",
                  {.existing = Existing::backup, .backup = {.name = dir / "old"}, .sync = false}));
    EXPECT_EQ(before, number_of(dir / "tree"));
    EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"old", "tree"}));
    EXPECT_EQ(slurp(dir / "old/notes"), kMine);
}

void publish_directories()
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

TEST(Publication, OfADirectory)
{
    publish_directories();
}

TEST(Publication, OfADirectoryWhereRenamesHaveNoFlags)
{
    const int status = where_renames_have_no_flags([] {
        publish_directories();
        Scratch dir;
        const FileOptions keep_one{
            .existing = Existing::backup, .backup = {.keep = 1}, .sync = false};
        for (int i = 0; i < 2; i++)
            EXPECT_TRUE(save_tree(dir / "tree"));
        EXPECT_EQ(names(dir.path()), std::vector<std::string>{"tree"});
        for (int i = 0; i < 2; i++)
            EXPECT_TRUE(save_tree(dir / "tree", keep_one));
        EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"tree", "tree.~2~"}));
    });
    if (status == no_filter)
        GTEST_SKIP() << "no filter of system calls here";
    EXPECT_EQ(0, status);
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

WriterOptions based_on(const Committed &base)
{
    return {.base = BaseImage{base.id, base.checksum}};
}

// One that the new image needs, and one that a kept backup needs.
TEST(Backups, ThoseThatAnImageNeedsStay)
{
    Scratch dir;
    FileOptions options{.existing = Existing::backup, .backup = {.keep = 1}, .sync = false};
    const auto first = save(dir / "image", options);
    ASSERT_TRUE(first);
    ASSERT_TRUE(save(dir / "image", options));
    ASSERT_TRUE(save(dir / "image", options, based_on(*first)));
    EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"image", "image.~1~", "image.~2~"}));
    ASSERT_TRUE(save(dir / "image", options));
    EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"image", "image.~1~", "image.~3~"}));
    ASSERT_TRUE(save(dir / "image", options));
    EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"image", "image.~4~"}));
    // What the new image is said to need stays as well, though its own header does not tell.
    options.backup.needed = {*id_of_file(dir / "image.~4~")};
    ASSERT_TRUE(save(dir / "image", options));
    EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"image", "image.~4~", "image.~5~"}));
}

TEST(Backups, ADirectoryThatAnImageNeedsStays)
{
    Scratch dir;
    const FileOptions options{.existing = Existing::backup, .backup = {.keep = 1}, .sync = false};
    for (int i = 0; i < 2; i++)
        ASSERT_TRUE(save_tree(dir / "tree", options));
    const auto member = Image::open(dir / "tree.~1~/context.7");
    ASSERT_TRUE(member);
    auto tree = create_directory(dir / "tree", options);
    ASSERT_TRUE(tree);
    auto writer = (*tree)->begin_member(
        {.base = BaseImage{(*member)->header().id, (*member)->footer().checksum}});
    ASSERT_TRUE(writer);
    feed_model(**writer, Model::random(7, 4));
    ASSERT_TRUE((*tree)->end_member(**writer, {.pid = 7}));
    ASSERT_TRUE((*tree)->commit({.scope = Scope::tree, .root_pid = 7}));
    EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"tree", "tree.~1~", "tree.~2~"}));
}

TEST(Backups, ANamedOneThatAnImageNeedsIsNotReplaced)
{
    Scratch dir;
    const FileOptions options{
        .existing = Existing::backup, .backup = {.name = dir / "before"}, .sync = false};
    const auto base = save(dir / "before", {.sync = false});
    ASSERT_TRUE(base);
    ASSERT_TRUE(save(dir / "image", {.sync = false}, based_on(*base)));
    auto refused = FileSink::create(dir / "image", options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EEXIST);
    EXPECT_NE(refused.error().text().find("needed"), std::string::npos);
    EXPECT_EQ(id_of_file(dir / "before"), base->id);
}

TEST(Backups, TheImageItselfIsNotItsOwnBackup)
{
    Scratch dir;
    ASSERT_TRUE(save(dir / "image", {.sync = false}));
    const auto id = id_of_file(dir / "image");
    const auto refused =
        FileSink::create(dir / "image", {.existing = Existing::backup,
                                         .backup = {.name = dir.path().native() + "/./image"},
                                         .sync = false});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code(), EEXIST);
    EXPECT_EQ(id_of_file(dir / "image"), id);
}

// Refused before anything is written, and the previous backup stays.
TEST(Backups, OnAnotherFileSystem)
{
    Scratch dir;
    const std::string shm = "/dev/shm/cryo-backup-test-" + std::to_string(getpid());
    if (!save(shm, {.sync = false}))
        GTEST_SKIP() << "no /dev/shm";
    struct stat its, ours;
    ASSERT_EQ(0, stat(shm.c_str(), &its));
    ASSERT_EQ(0, stat(dir.path().c_str(), &ours));
    const auto id = id_of_file(shm);
    ASSERT_TRUE(save(dir / "image", {.sync = false}));
    const FileOptions options{.existing = Existing::backup, .backup = {.name = shm}, .sync = false};
    const auto file = FileSink::create(dir / "image", options);
    const auto tree = create_directory(dir / "tree", options);
    EXPECT_EQ(id_of_file(shm), id);
    fs::remove(shm);
    if (its.st_dev == ours.st_dev)
        GTEST_SKIP() << "the tests' own directory is in /dev/shm";
    ASSERT_FALSE(file);
    EXPECT_EQ(file.error().code(), EXDEV);
    ASSERT_FALSE(tree);
    EXPECT_EQ(tree.error().code(), EXDEV);
    EXPECT_EQ(names(dir.path()), (std::vector<std::string>{"image"}));
}

// Elsewhere another node may be at work in a directory that looks left over here.
TEST(Trees, OnlyLocalFileSystemsTellOfAllLocks)
{
    EXPECT_TRUE(has_locks_for_all(EXT4_SUPER_MAGIC));
    EXPECT_TRUE(has_locks_for_all(TMPFS_MAGIC));
    for (const long shared : {long(NFS_SUPER_MAGIC), long(FUSE_SUPER_MAGIC), long(V9FS_MAGIC)})
        EXPECT_FALSE(has_locks_for_all(shared));
}

// The process that wrote it is killed: in a member, between two, and when all is written.
TEST(Trees, WhatAKilledOneHasLeftIsRemoved)
{
    for (int progress = 0; progress < 3; progress++) {
        Scratch dir;
        struct statfs system = {};
        ASSERT_EQ(statfs(dir.path().c_str(), &system), 0);
        const pid_t child = fork();
        if (child == 0) {
            Publication publication([](const std::string &) -> Result<void> { _exit(0); });
            auto tree = create_directory(
                dir / "tree",
                {.existing = Existing::replace, .sync = false, .publication = &publication});
            auto writer = (*tree)->begin_member({});
            if (progress == 0)
                _exit(0);
            feed_model(**writer, Model::random(7, 4));
            auto done = (*tree)->end_member(**writer, {.pid = 7});
            if (progress == 1)
                _exit(0);
            static_cast<void>((*tree)->commit({.scope = Scope::tree, .root_pid = 7}));
            _exit(1);
        }
        int status = -1;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        ASSERT_EQ(status, 0);
        const std::vector<std::string> left = names(dir.path());
        EXPECT_EQ(left.size(), 1U);
        ASSERT_TRUE(save_tree(dir / "tree"));
        std::vector<std::string> expected = {"tree"};
        if (!has_locks_for_all(system.f_type)) // as in a container on fuse-overlayfs
            expected.insert(expected.begin(), left.begin(), left.end());
        EXPECT_EQ(names(dir.path()), expected);
    }
}

TEST(Trees, OnlyWhatIsLeftOverIsRemoved)
{
    Scratch dir;
    auto other = create_directory(dir / "tree", {.existing = Existing::replace, .sync = false});
    ASSERT_TRUE(other);
    ASSERT_EQ(names(dir.path()).size(), 1U);
    const std::string held = names(dir.path()).front();
    ASSERT_TRUE(save_tree(dir / ".tree.backup"));
    const std::string foreign = ".tree.0123456789abcdef.tmp";
    fs::create_directory(dir / foreign);
    spew(dir / (foreign + "/notes"), kMine);
    ASSERT_TRUE(save_tree(dir / "tree"));
    std::vector<std::string> expected = {held, ".tree.backup", foreign, "tree"};
    std::ranges::sort(expected);
    EXPECT_EQ(names(dir.path()), expected);
    EXPECT_EQ(slurp(dir / (foreign + "/notes")), kMine);
    // The one that is still at work can be finished.
    auto writer = (*other)->begin_member({});
    ASSERT_TRUE(writer);
    feed_model(**writer, Model::random(7, 4));
    ASSERT_TRUE((*other)->end_member(**writer, {.pid = 7}));
    ASSERT_TRUE((*other)->commit({.scope = Scope::tree, .root_pid = 7}));
    other->reset();
    EXPECT_EQ(names(dir / "tree"), (std::vector<std::string>{"context.7", kTreeFile}));
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
