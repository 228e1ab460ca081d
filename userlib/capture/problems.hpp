// SPDX-License-Identifier: Apache-2.0
//
// What cannot be saved, all of it, found before anything is written.
//
//     problems.add("descriptor 5: TCP connection to 10.0.0.7:22", "--sockets=close");
//     if (!problems.empty())
//         return problems.error(pid);
#pragma once

#include "base/result.hpp"

#include <cerrno>
#include <string>
#include <vector>

namespace cryo::capture {

class Problems
{
  public:
    void add(std::string thing, std::string way_out)
    {
        list_.push_back(std::move(thing) + " (" + std::move(way_out) + ")");
    }
    bool empty() const { return list_.empty(); }
    Error error(int pid) const
    {
        std::string text = "process " + std::to_string(pid) + " cannot be saved:";
        for (const std::string &problem : list_)
            text += "\n  " + problem;
        return Error(ENOTSUP, text);
    }

  private:
    std::vector<std::string> list_;
};

} // namespace cryo::capture
