// SPDX-License-Identifier: Apache-2.0
//
// What cannot be saved, all of it, found before anything is written.
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

// Whether it may be over a moment later, by what the program does anyhow.
enum class Passing {
    never,
    when_gone, // if the thing is not there any more: a connection that has been closed
    soon,      // also where it stays: what waited in it has been read
};

class Problems
{
  public:
    // `same`: by which it is known again that the thing is still there, for Passing::when_gone.
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

    // Nothing among them needs anybody to do something about it.
    bool may_pass() const
    {
        return std::ranges::none_of(list_,
                                    [](const Problem &p) { return p.passing == Passing::never; });
    }
    // What is there as long as it is in the way.
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
