// SPDX-License-Identifier: Apache-2.0
//
// The images in a directory: context.000001, context.000002, ... and `latest`, another name of
// the newest. A file with such a name need not be one of them: only what stands in `Images`, with
// the id that the file has, was made here and is ever removed.
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
#include <string>
#include <vector>

namespace cryo::keeper {

inline constexpr const char *latest_name = "latest";

// Names of images that were made here, and their ids.
using Images = std::map<std::string, std::string>;

class Series
{
  public:
    explicit Series(std::string directory) : directory_(std::move(directory)) {}

    const std::string &directory() const { return directory_; }
    // Names of the images that are there, the oldest first. A directory that cannot be read is not
    // an empty one.
    Result<std::vector<std::string>> names() const;
    std::string path(const std::string &name) const { return directory_ + "/" + name; }
    // "", if there is none.
    Result<std::string> newest() const;
    Result<std::string> next() const;

    Result<void> point_latest() const;
    // The names of the images that an image needs, itself included, as far as they are here.
    Result<std::vector<std::string>> needed(const std::string &name) const;
    // Removes of `images` all but the newest and what those need, from the list as well; nothing
    // when that cannot be found out.
    Result<void> prune(unsigned keep, Images &images) const;
    // The id of the file; "": it is no image. ENOENT: it is not there.
    Result<std::string> id_of(const std::string &name) const;
    // The list without those whose files are gone, or are others.
    Result<Images> still_there(const Images &images) const;
    // All that are there, for a directory of an older Cryo, which kept no list.
    Result<Images> all() const;

    // Where a process of ours makes what is to get this name.
    std::string temporary(const std::string &name) const;
    // Removes those whose process has ended before it could.
    void remove_abandoned() const;

  private:
    std::string directory_;
};

} // namespace cryo::keeper
