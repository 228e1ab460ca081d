// SPDX-License-Identifier: Apache-2.0
//
// Finds the image that a delta image is based on: among files that were named, and beside the
// delta.
//
//     BaseFinder finder({"/backup/context.1"});
//     auto snapshot = Snapshot::open(path, {.find_base = finder.beside(path)});
//
// A file may be a plain image, or an archive or directory whose members are looked through.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "image/reader.hpp"

namespace cryo::image {

class BaseFinder
{
  public:
    explicit BaseFinder(std::vector<std::string> named = {}) : named_(std::move(named)) {}

    FindBase beside(const std::string &path) const;

  private:
    Result<std::shared_ptr<Image>> find(const std::string &beside, const Digest &id) const;

    std::vector<std::string> named_;
};

// The id in a file's first page, if that is the header of an image. Of an archive, that is the
// header of its first member.
std::optional<Digest> id_of_file(const std::string &path);

} // namespace cryo::image
