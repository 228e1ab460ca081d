// SPDX-License-Identifier: Apache-2.0
//
// A private directory that is removed after its last user has ended, for whatever reason: a child
// waits until no process holds the lifeline any more, and removes it.
//
//     Result<PrivateDirectory> own = PrivateDirectory::make("/var/tmp", "criu");
//     write_into(own->path());       // a command that inherits own->lifeline() uses it as well
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <string>
#include <sys/types.h>

namespace cryo::backend {

class PrivateDirectory
{
  public:
    static Result<PrivateDirectory> make(const std::string &parent, std::string_view what);
    PrivateDirectory(PrivateDirectory &&other) noexcept;
    PrivateDirectory &operator=(PrivateDirectory &&) = delete;
    // Removes the directory before it returns; but if another process still holds the lifeline,
    // does not wait, and the directory goes when that process ends.
    ~PrivateDirectory();

    const std::string &path() const { return path_; }
    int lifeline() const { return lifeline_.get(); }

  private:
    PrivateDirectory(std::string path, Fd lifeline, Fd end_of_all, pid_t janitor)
        : path_(std::move(path)), lifeline_(std::move(lifeline)),
          end_of_all_(std::move(end_of_all)), janitor_(janitor)
    {}

    std::string path_;
    Fd lifeline_, end_of_all_;
    pid_t janitor_;
};

// Where temporary files go that belong to no particular place.
std::string temporary_place();

} // namespace cryo::backend
