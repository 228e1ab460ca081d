// SPDX-License-Identifier: Apache-2.0
//
// Global snapshots on the disk, in Open MPI's old layout (docs/coordinator.md has the files):
//
//     BASE/ompi_global_snapshot_PID.ckpt/global_snapshot_meta.data
//     BASE/ompi_global_snapshot_PID.ckpt/SEQ/opal_snapshot_RANK.ckpt/{snapshot_meta.data,image}
//
// Where ranks are counted, directories ranks_K lie in between (image/rank_groups.hpp).
//
// A snapshot that is being made has another name (.SEQ.tmp); the line "# Finished Seq:" of the
// metadata, which are replaced as a whole, is the commit. So at any moment, whatever process
// dies, the snapshots that the metadata name are complete, and nothing else is a snapshot.
//
// A directory is removed only if it was certainly made here: the metadata, which could be read,
// name it as not finished, and a file in it has the mark that they name (.cryo-snapshot). So
// the metadata are written before a snapshot is begun; if they are damaged, nothing is done.
//
//     Result<SnapshotWriter> writer = SnapshotWriter::begin(base, reference, about);
//     ... images into writer->directory_of(rank)
//     Result<void> done = writer->commit(images);      // else it is removed with the writer
//     writer->keep(3);
//
//     Result<SnapshotStore> store = SnapshotStore::open(path);
//     const Snapshot *last = store->latest();
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::coord {

struct SnapshotImage {
    uint32_t rank = 0;
    int pid = 0;
    std::string node = {};
    std::string file = {}; // name in the rank's directory
    uint64_t bytes = 0;
    // If its node has a copy of it (docs/stores.md):
    std::string checksum = {}; // of the file
    std::string local = {};    // the rank's directory on the node
    // Of a delta: the snapshots whose images of this rank it needs, the one that it is based on
    // first.
    std::vector<int> needs = {};
    // The rank's metadata are there: the node has written them (describe_image), so the commit need
    // not; or this was read in them, as it is counted.
    bool is_described = false;
    // The rank's metadata name the node: those of all ranks do not, but count them.
    bool is_counted = false;
};

// Where a node has a rank's image, as the rank's metadata say.
struct LocalCopy {
    std::string directory;
    std::string file;
    uint64_t bytes = 0;
    std::string checksum;
};

// Nodes that keep parity of each other's images (docs/stores.md).
struct SnapshotSet {
    std::string id; // of what was encoded together (redundancy/description.hpp)
    std::vector<std::string> nodes;
};

struct Snapshot {
    int seq = 0;
    bool finished = false;
    std::string mark = {};      // in its directory; "": of an older Cryo, and never removed
    std::string started = {};   // as people read it
    std::string completed = {}; // likewise
    std::string job = {};       // of Cryo
    std::string series = {};    // of a supervised job, with all its restarts (Supervision); else ""
    int launcher = 0;
    std::vector<std::string> command = {}; // of the launcher
    std::string directory = {};            // in which it ran
    std::vector<SnapshotImage> images = {};
    // Or instead of them, as they are in the metadata: of a snapshot that is only kept on.
    std::string unread = {};
    void read();                 // them
    std::string redundancy = {}; // of the level of sets, if it is complete; else ""
    std::vector<SnapshotSet> sets = {};
    // Of a snapshot of more ranks than `most_listed_ranks`, which has neither deltas nor levels: it
    // has the ranks below this one, and what is said of each is in its own directory alone
    // (SnapshotStore::with_ranks).
    uint32_t counted = 0;
    uint64_t counted_bytes = 0;

    size_t ranks() const { return counted != 0 ? counted : images.size(); }
    uint64_t bytes() const;
    size_t local_images() const; // how many of the images their nodes have, too
    std::set<int> needs() const; // the snapshots that its images need; none, if they are unread
    // Of a finished one, whose images are in the order of their ranks; null: it has none.
    const SnapshotImage *image_of(uint32_t rank) const;
};

// What is read of metadata: of each of a hundred thousand images there are six lines, and a
// checkpoint needs none of those of earlier ones, unless they are deltas. Then it is the whole,
// too.
enum class Depth : uint8_t { whole, heads };

// More are counted, where a commit would else write six lines of each, and copy them for ever.
inline constexpr size_t most_listed_ranks = 1024;

std::string default_reference(int launcher);
std::string rank_directory(uint32_t rank); // its name
// The rank that has a directory of this name; none: it is another name.
std::optional<uint32_t> rank_of(std::string_view directory);
// Enters it, in the snapshot's directory, or in that of the rank's group.
Result<Directory> enter_rank(const Directory &snapshot, uint32_t rank);
std::string image_name(int pid);
std::string file_in_level(uint32_t rank, int pid); // below a node's level
// Where snapshots go and are looked for: Open MPI's parameters hook_cryo_directory
// and snapc_base_global_snapshot_dir in the environment, else the home directory.
std::string default_base();
// Of a job with these variables.
std::string default_base(const std::map<std::string, std::string> &variables);
// Where a restarted job's program puts further snapshots; set by ompi-restart.
constexpr char versions_variable[] = "CRYO_VERSIONS";

inline constexpr const char *local_metadata_name = "snapshot_meta.data";
// Writes what opal-restart reads in a rank's directory.
Result<void> write_local_metadata(const Directory &directory, const SnapshotImage &image);
// An image that is there, in a directory of ours, with that many bytes.
Result<void> check_image(const Directory &directory, const SnapshotImage &image);
// With the metadata beside it, synced: what a commit needs of a rank. Nodes do it at the same time,
// where the commit would have to take one rank after the other.
Result<void> describe_image(const Directory &directory, const SnapshotImage &image);
// The image that a rank's directory names.
Result<std::string> read_context(const Directory &directory, const std::string &metadata);
// The copy that it names; none: there is no level but this one.
Result<std::optional<LocalCopy>> read_local_copy(const Directory &directory,
                                                 const std::string &metadata);
// Checks a directory of snapshots, and a file in it that is read; see Trust.
Result<void> check_trust(const Directory &directory, const std::string &file, const Trust &trust);

class SnapshotStore
{
  public:
    // ENOENT: there is none. A store with any other defect is not treated as empty. The images of
    // ranks that are counted are not read: with_ranks() has them.
    static Result<SnapshotStore> open(const std::string &path);
    const std::string &path() const { return directory_.path(); }
    const Directory &directory() const { return directory_; }
    const std::map<int, Snapshot> &snapshots() const { return snapshots_; }
    const Snapshot *latest() const; // null: none is finished
    const Snapshot *find(int seq) const;
    // With the images of ranks that are counted, as each has them beside its own now; others have
    // them already. A rank whose metadata cannot be read has an image without a file.
    Snapshot with_ranks(Snapshot snapshot) const;
    // Whether what was read is of somebody whom `trust` has.
    Result<void> check_metadata(const Trust &trust) const;
    // The error names an image that is missing, or whose file is not trusted; also of those that
    // deltas need.
    Result<void> check(const Snapshot &snapshot, const Trust &trust) const;
    std::string image_path(const Snapshot &snapshot, const SnapshotImage &image) const;
    // The highest number that is, or was, in use by anything; −1: none.
    Result<int> last_number() const;

  private:
    friend class SnapshotWriter;
    explicit SnapshotStore(Directory directory) : directory_(std::move(directory)) {}
    Result<void> load(Depth depth = Depth::whole);
    Result<void> check_images(const Snapshot &snapshot, const Trust &trust,
                              const std::vector<const SnapshotImage *> &images) const;
    Result<void> check_needs(const Snapshot &snapshot, const Trust &trust) const;
    void remove_unfinished();
    Result<void> save() const;

    Directory directory_;
    std::map<int, Snapshot> snapshots_; // unfinished ones are to be removed
};

class SnapshotWriter
{
  public:
    // `reference` "": the one that belongs to the launcher; or, where that name has been taken by
    // another user, the next free one.
    static Result<SnapshotWriter> begin(const std::string &base, const std::string &reference,
                                        Snapshot about);
    SnapshotWriter(SnapshotWriter &&) = default;
    SnapshotWriter &operator=(SnapshotWriter &&) = delete;
    ~SnapshotWriter(); // removes what was not committed
    // Lets other checkpoints write there; the destructor does so at the latest.
    void unlock();

    int seq() const { return about_.seq; }
    const std::string &path() const { return store_.path(); } // of all snapshots of this reference
    std::string directory() const;                            // where this one is made
    std::string level_name() const; // no other snapshot's, anywhere: of its levels elsewhere
    // The newest finished snapshot of this job, on whose images new ones may be based.
    const Snapshot *previous() const;       // null: there is none
    bool has_image(int seq, uint32_t rank); // of a finished snapshot
    // A file in directory() with contents that a daemon elsewhere can compare.
    Result<void> put_token(const std::string &contents) const;
    // Directories for the directories of so many ranks, from 0, which are to be counted.
    Result<void> make_groups(uint32_t ranks) const;
    Result<void> commit(std::vector<SnapshotImage> images);
    // Of so many ranks, from 0, each of which its node has described: Snapshot::counted.
    Result<void> commit_counted(uint32_t ranks, uint64_t bytes);
    // Of what is committed: its sets are complete, too.
    Result<void> add_sets(const std::string &redundancy, std::vector<SnapshotSet> sets);
    // Of the finished snapshots of this job, or of its series, only the last `count` remain, and
    // those that the images of remaining ones need.
    Result<void> keep(unsigned count);

    // To take snapshots away, and to keep others from being made meanwhile. ENOENT: there are none;
    // EBUSY: one is being made.
    static Result<SnapshotWriter> open(const std::string &path);
    const SnapshotStore &store() const { return store_; } // of begin(): without images
    // Takes a finished snapshot out of the list, and renames its directory to abandoned.SEQ.
    Result<void> abandon(int seq);

  private:
    static Result<Directory> open_own(const std::string &path);
    static Result<Directory> open_default(const std::string &base, int launcher);
    static Result<SnapshotWriter> locked(Result<Directory> directory);
    explicit SnapshotWriter(SnapshotStore store) : store_(std::move(store)) {}
    Result<void> complete(const SnapshotImage &image) const;
    Result<void> finish(Snapshot finished);

    SnapshotStore store_;
    Fd lock_; // keeps other checkpoints from writing there
    Snapshot about_;
    std::optional<Directory> fresh_; // none: there is nothing to remove
};

} // namespace cryo::coord
