// SPDX-License-Identifier: Apache-2.0
//
// A directory that files are brought into: it appears under its name when all of them are in it,
// synced, and is removed unless it gets that: after a kill by the next one that wants the name.
//
//     Result<FreshDirectory> fresh = FreshDirectory::make("/scratch/run7", manifest);
//     Result<Fd> file = fresh->create(manifest.files[0]);
//     ... write, sync ...
//     Result<void> there = fresh->take_name();
#pragma once

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "store/manifest.hpp"

#include <set>
#include <string>
#include <utility>

namespace cryo::store {

class FreshDirectory
{
  public:
    // EEXIST: there is something of that name already.
    static Result<FreshDirectory> make(const std::string &wanted, const Manifest &manifest);
    FreshDirectory(FreshDirectory &&other) noexcept
        : path_(std::exchange(other.path_, "")), wanted_(std::move(other.wanted_)),
          below_(std::move(other.below_)), directory_(std::move(other.directory_))
    {}
    FreshDirectory &operator=(FreshDirectory &&) = delete;
    ~FreshDirectory();

    // What it is called until then.
    std::string path_of(const StoredFile &file) const { return path_ + "/" + file.name; }
    // Open for reading and writing.
    Result<Fd> create(const StoredFile &file) const;
    Result<void> take_name();

  private:
    FreshDirectory(std::string path, std::string wanted, Directory directory)
        : path_(std::move(path)), wanted_(std::move(wanted)), directory_(std::move(directory))
    {}

    std::string path_, wanted_;
    std::set<std::string> below_; // directories in it, each after the one that it is in
    Directory directory_;
};

} // namespace cryo::store
