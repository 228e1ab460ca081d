// SPDX-License-Identifier: Apache-2.0
//
// Collects everything that cannot be saved, before anything is written.
//
//     problems.add("descriptor 5: TCP connection to 10.0.0.7:22", "--sockets=close");
//     if (!problems.empty())
//         return problems.error(pid);
#pragma once

#include "base/result.hpp"

#include <algorithm>
#include <cerrno>
#include <set>
#include <string>
#include <vector>

namespace cryo::capture {

// Whether the problem may disappear shortly through what the program does anyway.
enum class Passing {
    never,
    when_gone, // once the thing is gone: a connection that is closed
    soon,      // also if it stays: once its queued contents have been read
};

class Problems
{
  public:
    // `same`: identifies the thing in the next try, for Passing::when_gone.
    void add(std::string thing, std::string way_out, Passing passing = Passing::never,
             std::string same = {})
    {
        list_.push_back(
            {std::move(thing) + " (" + std::move(way_out) + ")", passing, std::move(same)});
    }
    bool empty() const { return list_.empty(); }
    Error error(int pid) const
    {
        std::string text = "process " + std::to_string(pid) + " cannot be saved:";
        for (const Problem &problem : list_)
            text += "\n  " + problem.text;
        return Error(ENOTSUP, text);
    }

    // True if every problem may pass without anyone's intervention.
    bool may_pass() const
    {
        return std::ranges::none_of(list_,
                                    [](const Problem &p) { return p.passing == Passing::never; });
    }
    // Adds the things that are obstacles as long as they exist.
    void add_to(std::set<std::string> &things) const
    {
        for (const Problem &problem : list_) {
            if (problem.passing == Passing::when_gone)
                things.insert(problem.same);
        }
    }

  private:
    struct Problem {
        std::string text;
        Passing passing;
        std::string same;
    };
    std::vector<Problem> list_;
};

} // namespace cryo::capture
