// SPDX-License-Identifier: Apache-2.0
//
// Private memory that a lazy restart has mapped from an image: it is the program's own, and all of
// it is saved. The file may have changed its name, which /proc then says.
//
//     MappedImages images;                 // of one checkpoint: each file is looked at once
//     images.look(smaps);                  // of a program that runs: so that it need not later
//     if (images.has(mapping)) …
#pragma once

#include "capture/regions.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

namespace cryo::capture {

class MappedImages
{
  public:
    void look(std::string_view smaps); // several threads may
    bool has(const Mapping &m);

  private:
    std::mutex busy_;
    std::map<std::pair<uint64_t, uint64_t>, bool> known_; // device, inode
};

} // namespace cryo::capture
