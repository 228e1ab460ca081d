// SPDX-License-Identifier: Apache-2.0
//
// The images in a directory: context.000001, context.000002, ... and `latest`, another name of
// the newest.
//
//     Series series("/scratch/context.412.d");
//     save_to(series.next());
//     series.point_latest();
//     series.prune(2);                   // the newest two stay, and what they need
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cryo::keeper {

inline constexpr const char *latest_name = "latest";

class Series
{
  public:
    explicit Series(std::string directory) : directory_(std::move(directory)) {}

    const std::string &directory() const { return directory_; }
    // Names of the images that are there, the oldest first.
    std::vector<std::string> names() const;
    std::string path(const std::string &name) const { return directory_ + "/" + name; }
    // "", if there is none.
    std::string newest() const;
    std::string next() const;

    Result<void> point_latest() const;
    // The names of the images that an image needs, itself included, as far as they are here.
    Result<std::vector<std::string>> needed(const std::string &name) const;
    // Removes all but the newest and what those need; nothing when that cannot be found out.
    Result<void> prune(unsigned keep) const;

    // Where a process of ours makes what is to get this name.
    std::string temporary(const std::string &name) const;
    // Removes those whose process has ended before it could.
    void remove_abandoned() const;

  private:
    std::string directory_;
};

} // namespace cryo::keeper
