// SPDX-License-Identifier: Apache-2.0
//
// Memory files whose seals forbid new writable mappings, but not those that processes have already
// (F_SEAL_FUTURE_WRITE): they are sealed when all processes have mapped them.
//
//     LateSeals seals;
//     Result<void> taken = seals.take(file, fd); // while the file is made
//     Result<void> sealed = seals.put();         // all processes have mapped it
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/records.hpp"

#include <string>
#include <vector>

namespace cryo::restore {

class LateSeals
{
  public:
    // Keeps a descriptor of a memory file that has such seals, and ignores others.
    Result<void> take(const image::File &file, int fd);
    bool empty() const { return all_.empty(); }
    Result<void> put() const;

  private:
    struct One {
        Fd fd;
        uint32_t seals;
        std::string link;
    };
    std::vector<One> all_;
};

} // namespace cryo::restore
