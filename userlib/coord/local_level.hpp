// SPDX-License-Identifier: Apache-2.0
//
// The level `local` of a snapshot (docs/stores.md): images in a directory of their node, private to
// the user.
//
//     BASE/cryo-UID/NAME/level         the job; locked while a daemon uses it
//     BASE/cryo-UID/NAME/committed     empty: its images are those of a finished snapshot
//     BASE/cryo-UID/NAME/node         the node that has it alone, if it has to be one
//     BASE/cryo-UID/NAME/parity       of other nodes' images (redundancy/parity_file.hpp)
//     BASE/cryo-UID/NAME/opal_snapshot_RANK.ckpt/image
//
//     Result<LocalLevel> level = LocalLevel::begin("/dev/shm", name, job);
//     Result<std::string> directory = level->make_rank(3);
//     Result<void> done = level->commit();     // else it goes, once it is used no more
//     retire_levels("/dev/shm", job, 1);
#pragma once

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"

#include <cstdint>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::coord {

struct LocalCopy;

// BASE for a node: "%N" in it stands for the node's name.
std::string base_of_node(std::string base, const std::string &node);
// A rank's directory in it.
std::string local_rank_directory(const std::string &base, uid_t user, const std::string &name,
                                 uint32_t rank);

class LocalLevel
{
  public:
    // One that is there is shared: two daemons of a job may run on one host.
    static Result<LocalLevel> begin(const std::string &base, const std::string &name,
                                    const std::string &job);
    Result<std::string> make_rank(uint32_t rank) const; // its directory
    // EEXIST: it is another node's as well, and would be lost together with that.
    Result<void> claim(const std::string &node) const;
    const Directory &directory() const { return directory_; }
    Result<void> commit() const;

  private:
    LocalLevel(Directory directory, Fd lock)
        : directory_(std::move(directory)), lock_(std::move(lock))
    {}

    Directory directory_;
    Fd lock_;
};

// Removes levels of the user's that nobody needs any more.
void retire_levels(const std::string &base, const std::string &job, unsigned keep);

struct LevelThere {
    std::string name;
    std::string job;
    int64_t when = 0; // it was committed; only the order counts
    bool committed = false;
    bool in_use = false;
    bool has_parity = false;
};

// The names of those that go: uncommitted ones that no daemon uses; of `job` all but the last
// `keep`, and the last one with parity; of other jobs, which have ended if no daemon uses any of
// their levels, the same together: a job that was brought back has a new name.
std::vector<std::string> retired(std::vector<LevelThere> all, const std::string &job,
                                 unsigned keep);

// Whether an image failed for a reason that another directory may not have.
bool is_trouble_of_the_disk(int error);
// Bytes that the user may write there; 0: nobody knows.
uint64_t room_in(const std::string &base);
// Whether what did not fit when there was as much room as `then` may fit now.
bool has_more_room(uint64_t now, uint64_t then);

struct NearLevel {
    Directory directory;
    Fd lock; // as long as it is open, no daemon removes the level
};

// A level that is seen here, at BASE/cryo-UID/NAME. ENOENT: there is none.
Result<NearLevel> hold_level(const std::string &path, const Trust &trust);
// Where nodes may have theirs under one path (/dev/shm). ENOENT: it is another node's.
Result<NearLevel> hold_level_of(const std::string &node, const std::string &path,
                                const Trust &trust);

struct NearCopy {
    std::string path;
    Fd level; // as long as it is open, no daemon removes the level
};

// The copy, if it is whole and of somebody whom `trust` has. ENOENT: there is none.
Result<NearCopy> find_copy(const LocalCopy &copy, const Trust &trust);

} // namespace cryo::coord
