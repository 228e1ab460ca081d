// SPDX-License-Identifier: Apache-2.0
// Where the image is found that a delta is based on, of ranks of MPI jobs.
#include "image/base_finder.hpp"
#include "sample.hpp"

namespace cryo::image {

namespace {

namespace fs = std::filesystem;

// As a job's snapshots lie: SEQ/opal_snapshot_RANK.ckpt/cryo_context.412.
class Bases : public testing::Test
{
  protected:
    std::string path(const std::string &in) const
    {
        fs::create_directories(dir_ / in);
        return dir_ / (in + "/cryo_context.412");
    }
    Committed put(const std::string &in) const
    {
        return write_image(path(in), Model::random(1, 40));
    }
    std::string put_delta(const std::string &in, const Committed &base) const
    {
        write_image(path(in), Model::random(2, 4), {.base = BaseImage{base.id, base.checksum}});
        return path(in);
    }
    // The file of the base; or why it cannot be used.
    static std::string base_of(const std::string &path)
    {
        const auto image = Image::open(path, {.find_base = BaseFinder().beside(path)});
        const auto base = image ? (*image)->base() : image.error();
        return base ? (*base)->name() : base.error().text();
    }

    Scratch dir_;
};

constexpr const char *not_there = "not found in the other snapshots of its job";

TEST_F(Bases, AreInTheOtherSnapshotsOfTheJob)
{
    const Committed base = put("0/opal_snapshot_3.ckpt");
    put("1/opal_snapshot_3.ckpt");
    const std::string delta = put_delta("2/opal_snapshot_3.ckpt", base);
    EXPECT_EQ(base_of(delta), path("0/opal_snapshot_3.ckpt"));
    fs::rename(dir_ / "2", dir_ / "7"); // as a commit renames it
    EXPECT_EQ(base_of(path("7/opal_snapshot_3.ckpt")), path("0/opal_snapshot_3.ckpt"));
}

TEST_F(Bases, MayLieInGroupsOfRanks)
{
    const Committed base = put("0/ranks_4/opal_snapshot_5000.ckpt");
    put("0/ranks_3/opal_snapshot_5000.ckpt");
    const std::string delta = put_delta("1/opal_snapshot_5000.ckpt", base);
    EXPECT_EQ(base_of(delta), path("0/ranks_4/opal_snapshot_5000.ckpt"));
    const std::string other = put_delta("2/ranks_4/opal_snapshot_5000.ckpt", base);
    EXPECT_EQ(base_of(other), path("0/ranks_4/opal_snapshot_5000.ckpt"));
    fs::create_directory(dir_ / "far");
    fs::rename(dir_ / "0/ranks_4", dir_ / "far/away");
    fs::create_directory_symlink(dir_ / "far/away", dir_ / "0/ranks_4");
    EXPECT_NE(base_of(delta).find(not_there), std::string::npos);
}

TEST_F(Bases, OfAnotherRankAreNone)
{
    const Committed base = put("0/opal_snapshot_4.ckpt");
    put("1/opal_snapshot_3.ckpt");
    EXPECT_NE(base_of(put_delta("2/opal_snapshot_3.ckpt", base)).find(not_there),
              std::string::npos);
}

TEST_F(Bases, AreNotLookedForBesideOtherDirectories)
{
    const Committed base = put("0/images");
    EXPECT_NE(base_of(put_delta("2/images", base)).find("not found beside it"), std::string::npos);
}

TEST_F(Bases, ThatAreGoneOrDamagedAreNamed)
{
    const Committed base = put("0/opal_snapshot_3.ckpt");
    put("1/opal_snapshot_3.ckpt");
    const std::string delta = put_delta("2/opal_snapshot_3.ckpt", base);
    const std::string file = path("0/opal_snapshot_3.ckpt");
    fs::resize_file(file, fs::file_size(file) - 1);
    EXPECT_NE(base_of(delta).find(file + ": "), std::string::npos) << base_of(delta);
    fs::rename(dir_ / "0", dir_ / "away");
    fs::rename(dir_ / "away/opal_snapshot_3.ckpt", dir_ / "away/mine");
    EXPECT_NE(base_of(delta).find(not_there), std::string::npos) << base_of(delta);
    EXPECT_NE(base_of(delta).find(base.id.hex()), std::string::npos);
}

TEST_F(Bases, NoLinkIsFollowed)
{
    const Committed base = put("0/opal_snapshot_3.ckpt");
    put("1/opal_snapshot_3.ckpt");
    const std::string delta = put_delta("2/opal_snapshot_3.ckpt", base);
    fs::create_directory(dir_ / "elsewhere");
    fs::rename(dir_ / "0", dir_ / "elsewhere/0");
    fs::create_directory_symlink(dir_ / "elsewhere/0", dir_ / "0");
    EXPECT_NE(base_of(delta).find(not_there), std::string::npos) << base_of(delta);
}

} // namespace

} // namespace cryo::image
