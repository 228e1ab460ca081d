// SPDX-License-Identifier: Apache-2.0
//
// A directory of global snapshots for tests, with dummy images.
//
//     Store store;
//     store.save();                            // a finished snapshot, of two ranks
//     store.write("mine/0/U", "a case");       // a foreign file
#pragma once

#include "coord/snapshot.hpp"
#include "image/rank_groups.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

namespace cryo::coord {

inline constexpr const char *reference = "mine.ckpt";
inline constexpr const char *meta = "global_snapshot_meta.data";

// Where a snapshot has the directories of its ranks.
enum class Layout : uint8_t { alone, groups };

inline std::filesystem::path place_of(uint32_t rank, Layout layout)
{
    return std::filesystem::path(layout == Layout::groups ? image::group_directory(rank) : "") /
           rank_directory(rank);
}

class Store
{
  public:
    explicit Store(const std::string &parent = std::filesystem::temp_directory_path())
    {
        std::string name = parent + "/cryo-store.XXXXXX";
        EXPECT_NE(mkdtemp(name.data()), nullptr);
        base_ = name;
    }
    ~Store()
    {
        std::error_code ignored;
        std::filesystem::remove_all(base_, ignored);
    }
    Store(const Store &) = delete;
    Store &operator=(const Store &) = delete;

    std::string base() const { return base_; }
    std::filesystem::path at(const std::string &name) const { return base_ / name; }
    std::filesystem::path top() const { return base_ / reference; }

    void write(const std::string &name, const std::string &text) const
    {
        std::filesystem::create_directories(at(name).parent_path());
        std::ofstream(at(name)) << text;
    }
    std::string read(const std::string &name) const
    {
        std::stringstream text;
        text << std::ifstream(at(name)).rdbuf();
        return text.str();
    }
    // Every file and directory below the base.
    std::vector<std::string> everything() const
    {
        std::vector<std::string> all;
        for (const auto &one : std::filesystem::recursive_directory_iterator(base_))
            all.push_back(std::filesystem::relative(one.path(), base_));
        std::sort(all.begin(), all.end());
        return all;
    }

    Result<SnapshotWriter> begin(const std::string &name = reference,
                                 const std::string &job = "412-0",
                                 const std::string &series = "") const
    {
        return SnapshotWriter::begin(
            base_, name,
            {.job = job, .series = series, .launcher = 412, .command = {"mpirun", "x"}});
    }
    // Writes the images, as the daemons do.
    static std::vector<SnapshotImage> put_images(const SnapshotWriter &writer, uint32_t ranks = 2,
                                                 Layout layout = Layout::alone)
    {
        EXPECT_TRUE(layout == Layout::alone || writer.make_groups(ranks));
        std::vector<SnapshotImage> images;
        for (uint32_t rank = 0; rank < ranks; rank++) {
            const auto place = std::filesystem::path(writer.directory()) / place_of(rank, layout);
            std::filesystem::create_directory(place);
            const int pid = 500 + static_cast<int>(rank);
            const std::string text = "image " + std::to_string(writer.seq());
            std::ofstream(place / image_name(pid)) << text;
            images.push_back({rank, pid, "node", image_name(pid), text.size()});
        }
        return images;
    }
    Result<void> save(unsigned keep = 0, const std::string &name = reference,
                      const std::string &job = "412-0", const std::string &series = "") const
    {
        Result<SnapshotWriter> writer = begin(name, job, series);
        if (!writer)
            return writer.error();
        if (Result<void> done = writer->commit(put_images(*writer)); !done)
            return done;
        return keep > 0 ? writer->keep(keep) : Result<void>();
    }
    // Of so many ranks that the metadata have no lines of them: each has its own beside its image.
    Result<void> save_counted(uint32_t ranks, Layout layout = Layout::groups) const
    {
        Result<SnapshotWriter> writer = begin();
        if (!writer)
            return writer.error();
        uint64_t bytes = 0;
        for (SnapshotImage &image : put_images(*writer, ranks, layout)) {
            image.is_counted = true;
            image.node = "n" + std::to_string(image.rank);
            bytes += image.bytes;
            const auto directory = Directory::open(std::filesystem::path(writer->directory()) /
                                                   place_of(image.rank, layout));
            if (Result<void> done = describe_image(*directory, image); !done)
                return done;
        }
        return writer->commit_counted(ranks, bytes);
    }
    // A rank's own metadata, in the first snapshot.
    static std::string text_of(uint32_t rank, Layout layout = Layout::groups)
    {
        return std::filesystem::path(reference) / "0" / place_of(rank, layout) /
               local_metadata_name;
    }
    // The numbers of the finished snapshots, each of which must be complete.
    std::vector<int> finished() const
    {
        const Result<SnapshotStore> store = SnapshotStore::open(top());
        std::vector<int> all;
        if (!store)
            return all;
        for (const auto &[seq, snapshot] : store->snapshots()) {
            if (snapshot.finished && store->check(snapshot, Trust()))
                all.push_back(seq);
        }
        return all;
    }

  private:
    std::filesystem::path base_;
};

} // namespace cryo::coord
