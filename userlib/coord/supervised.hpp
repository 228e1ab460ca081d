// SPDX-License-Identifier: Apache-2.0
//
// What a job's first daemon tells the supervisor that has started the job, as lines of JSON down a
// pipe, which ends when the daemon does.
//
//     {"begun": true}
//     {"elsewhere": true}               there are ranks on another node, or there will be; once
//     {"running": true, "elsewhere": false}
//                                       all ranks are there, and none on another node; once
//     {"launcher_ended": true, "outlived": false}
//                                       and whether ranks were there still
//     {"saving": true}                  after that, and again and again: a snapshot may still come
//     {"ended": true, "left": ["n2"]}   at last: the nodes whose ranks may go on
//
//     Supervised supervised(std::move(pipe));
//     supervised.running(false);  supervised.lost("n2");  supervised.ended({});
#pragma once

#include "base/fd.hpp"

#include <set>
#include <string>

namespace cryo::coord {

class Supervised
{
  public:
    explicit Supervised(Fd to); // none: nobody supervises the job

    bool is_wanted() const { return bool(to_); }
    bool has_run() const { return has_run_; }
    void elsewhere();
    void running(bool elsewhere);
    void saving();
    void launcher_ended(bool outlived);
    // The daemon of this node has gone, and what became of its ranks is not known.
    void lost(const std::string &node) { lost_.insert(node); }
    // `there`: nodes of ranks that have not ended.
    void ended(std::set<std::string> there);

  private:
    void say(const std::string &line);

    Fd to_;
    bool has_run_ = false;
    bool is_elsewhere_ = false; // as was said
    std::set<std::string> lost_;
};

} // namespace cryo::coord
