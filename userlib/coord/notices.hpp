// SPDX-License-Identifier: Apache-2.0
//
// What ranks' images have to say to the command, as far as it takes that: a command that refused
// the message of the end would report a failure after a good commit.
//
//     notices.add("rank 3: its files of /proc are not saved");
//     const std::vector<std::string> all = notices.all();
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace cryo::coord {

class Notices
{
  public:
    void add(std::string notice);
    std::vector<std::string> all() const; // and how many are left out

  private:
    std::vector<std::string> all_;
    size_t bytes_ = 0;
    size_t left_out_ = 0;
};

} // namespace cryo::coord
