// SPDX-License-Identifier: Apache-2.0
//
// What a job's first daemon tells the supervisor that has started the job, as lines of JSON down a
// pipe, which ends when the daemon does.
//
//     {"begun": true, "lease_ns": 20000000000}
//                                       the longest time that a node acts after this one's end
//     {"elsewhere": true}               there are ranks on another node, or there will be; once
//     {"lost": "n2", "until_ns": 81000000000000}
//                                       nothing of it acts after that time of CLOCK_BOOTTIME
//     {"running": true, "elsewhere": false, "unfenced": false}
//                                       all ranks are there, and none on another node, nor one that
//                                       is here but not below the supervisor; once
//     {"launcher_ended": true, "outlived": false, "unfinished": false, "fault": false}
//                                       and whether ranks were there still; how the others have
//                                       ended (endings.hpp)
//     {"saving": true}                  after that, and again and again: a snapshot may still come
//     {"ended": true, "left": ["n1"], "until_ns": 81000000000000}
//                                       at last: nodes without a lease that have ranks still, and
//                                       when nothing of the others acts any more; 0: already
//
//     Supervised supervised(std::move(pipe), lease_ns);
//     supervised.running(false, false);  supervised.lost("n2", until_ns);  supervised.ended({},
//     until_ns);
#pragma once

#include "base/fd.hpp"
#include "coord/endings.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

namespace cryo::coord {

class Supervised
{
  public:
    Supervised(Fd to, int64_t lease_ns); // none: nobody supervises the job

    bool is_wanted() const { return bool(to_); }
    bool has_run() const { return has_run_; }
    void elsewhere();
    // `unfenced`: such as have no lease, and whose end the supervisor does not see.
    void running(bool elsewhere, bool unfenced);
    void saving();
    void launcher_ended(bool outlived, const Endings &endings);
    // The daemon of this node has gone; what is left of its ranks acts until then.
    void lost(const std::string &node, int64_t until_ns);
    void ended(const std::set<std::string> &left, int64_t until_ns);

  private:
    void say(const nlohmann::json &object);

    Fd to_;
    bool has_run_ = false;
    bool is_elsewhere_ = false; // as was said
    int64_t until_ns_ = 0;
};

} // namespace cryo::coord
