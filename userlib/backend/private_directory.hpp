// SPDX-License-Identifier: Apache-2.0
//
// A directory of nobody else's that goes away with its last user, however that ends: a child waits
// until nobody holds the lifeline any more, and removes it.
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
    // It is gone when this returns; or when whoever else holds the lifeline ends, for whom nobody
    // waits here.
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

// Where temporary files go that are wanted by no particular place.
std::string temporary_place();

} // namespace cryo::backend
