// SPDX-License-Identifier: Apache-2.0
//
// Private memory that a lazy restart has mapped from an image belongs to the program and is saved
// completely. The file may have been renamed; /proc then shows the new name.
//
//     MappedImages images;                 // of one checkpoint: looks at each file once
//     images.look(smaps);                  // while the program runs, to save time in the stop
//     if (images.has(mapping)) …
#pragma once

#include "look/regions.hpp"

#include <cstdint>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>

namespace cryo::capture {

class MappedImages
{
  public:
    void look(std::string_view smaps); // thread-safe
    bool has(const Mapping &m);

  private:
    std::mutex busy_;
    std::map<std::pair<uint64_t, uint64_t>, bool> known_; // key: device, inode
};

} // namespace cryo::capture
