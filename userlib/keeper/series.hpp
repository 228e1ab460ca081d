// SPDX-License-Identifier: Apache-2.0
//
// The images in a directory: context.000001, context.000002, ... and `latest`, another name of
// the newest. A file with such a name need not be one of them: only a file that `Images` lists,
// with the same id, was made here and may be removed.
//
//     Series series("/scratch/context.412.d");
//     save_to(*series.next());
//     series.point_latest();
//     series.prune(2, images);           // the newest two stay, and what they need
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace cryo::keeper {

inline constexpr const char *latest_name = "latest";
inline constexpr const char *reference_name = "context.ckpt"; // of snapshots of MPI jobs

// Names of images that were made here, and their ids.
using Images = std::map<std::string, std::string>;

class Series
{
  public:
    // Whether it is a name that images get; and of two such names which is the earlier one's.
    static bool is_image_name(const std::string &name);
    static bool comes_before(const std::string &one, const std::string &other);
    static std::string after(const std::string &name); // "": the first one

    explicit Series(std::string directory) : directory_(std::move(directory)) {}

    const std::string &directory() const { return directory_; }
    // Names of the images that are there, the oldest first. An unreadable directory is an error,
    // not an empty one.
    Result<std::vector<std::string>> names() const;
    std::string path(const std::string &name) const { return directory_ + "/" + name; }
    // "" if there is none.
    Result<std::string> newest() const;
    Result<std::string> next() const;

    Result<void> point_latest() const;
    // The names of the images that an image needs, itself included, as far as they are here.
    Result<std::vector<std::string>> needed(const std::string &name) const;
    // Removes all of `images` but the newest `keep` and what those need, from the list as well;
    // nothing if that cannot be determined. What is `in_use` stays, too.
    Result<void> prune(unsigned keep, Images &images,
                       const std::set<std::string> &in_use = {}) const;
    // The id of the file; "": it is no image. ENOENT: it is not there.
    Result<std::string> id_of(const std::string &name) const;
    // The entries of `images` whose files are still there with the same id.
    Result<Images> still_there(const Images &images) const;
    // All images that are there, for a directory of an older Cryo, which kept no list.
    Result<Images> all() const;

    // Where this process builds a file that is to get this name.
    std::string temporary(const std::string &name) const;
    // Removes temporary files whose process has ended.
    void remove_abandoned() const;

  private:
    std::string directory_;
};

} // namespace cryo::keeper
