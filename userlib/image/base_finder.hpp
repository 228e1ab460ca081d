// SPDX-License-Identifier: Apache-2.0
//
// Finds the image that a delta image is based on: among files that were named, beside the delta,
// and, of a rank of an MPI job, in the snapshots beside its own (coord/snapshot.hpp):
//
//     JOB.ckpt/3/opal_snapshot_0.ckpt/cryo_context.412
//     JOB.ckpt/4/opal_snapshot_0.ckpt/cryo_context.412    // the delta
//
// Large jobs have directories in between (rank_groups.hpp).
//
//     BaseFinder finder({"/backup/context.1"});
//     auto snapshot = Snapshot::open(path, {.find_base = finder.beside(path)});
//
// A file may be a plain image, or an archive or directory whose members are looked through.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/directory.hpp"
#include "image/reader.hpp"

namespace cryo::image {

class BaseFinder
{
  public:
    explicit BaseFinder(std::vector<std::string> named = {},
                        std::shared_ptr<const Trust> trust = {})
        : named_(std::move(named)), trust_(std::move(trust))
    {}

    FindBase beside(const std::string &path) const;

  private:
    OpenOptions options_for(const std::string &path) const;
    Result<std::shared_ptr<Image>> find(const std::string &beside, const Digest &id) const;
    Result<std::shared_ptr<Image>> find_in(const std::string &directory, const Digest &id,
                                           std::optional<Error> &refused) const;

    std::vector<std::string> named_;
    std::shared_ptr<const Trust> trust_;
};

// The id in a file's first page, if that is the header of an image. Of an archive, that is the
// header of its first member.
std::optional<Digest> id_of_file(const std::string &path);
// For callers that will remove the file or treat it as gone: only ENOENT means that it is gone.
// Empty: it exists but is not an image (a link to an image is not one either).
Result<std::optional<Digest>> look_for_id(const Directory &directory, const std::string &name);

} // namespace cryo::image
