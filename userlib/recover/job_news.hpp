// SPDX-License-Identifier: Apache-2.0
//
// What the first daemon of a supervised job has told of it (coord/supervised.hpp), and what
// follows.
//
//     news.begin_run(Run::restart);
//     if (news.take(line)) ...                     // all ranks are there
//     Result<int64_t> gone = news.when_gone(now);  // then nothing is left on other nodes
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::recover {

enum class Run {
    first,   // from the beginning
    restart, // what it starts ends with its node's daemon before it does anything (opal-restart)
};

struct LostNode {
    std::string name;
    int64_t noted_ns = 0; // since 1970, when its loss was told
};

// "node n2 was lost", "nodes n2, n3 were lost"
std::string loss_text(const std::vector<LostNode> &lost);
// What is said when nothing acts there any more, for which the supervisor has waited so long; 0: it
// was so already.
std::string end_text(const LostNode &node, int64_t waited_ns);

class JobNews
{
  public:
    // A launcher is started.
    void begin_run(Run run);
    pid_t keeper() const { return keeper_; } // of this run, as ompi-restart has told; 0: none
    // True: all ranks are there.
    bool take(const nlohmann::json &line);

    // Of a line, whatever it says: a daemon that completes a snapshot says so now and then.
    void heard(uint64_t now_ns) { heard_ns_ = now_ns; }
    // Whether nothing has come for so long, since the wait for it began, that nothing will come.
    bool is_silent(uint64_t begun_ns, uint64_t now_ns) const;

    // Whether there was a daemon: without one, no launcher.
    bool has_begun() const { return has_begun_; }
    bool has_run() const { return has_run_; } // all ranks were there
    // If nothing more can come: the daemon has ended before the job.
    bool was_left() const { return has_begun_ && !left_ && !outlived_; }

    // How the launcher's end is to be judged: whether ranks were left, or nodes were lost.
    bool knows_launchers_end() const;
    // Ranks were there still when the launcher had ended, or a node's daemon ended before them.
    // With the first daemon the ranks of other nodes end, and others that miss them may end the job
    // with any status.
    bool launcher_left_ranks() const
    {
        return outlived_.value_or(false) || !lost_.empty() ||
               (was_left() && has_run_ && is_elsewhere_ == true && lease_ns_ > 0);
    }
    // Whether it is known how the ranks have ended that came.
    bool knows_ends() const { return left_.has_value() || outlived_.has_value(); }
    // All ranks were there, and not all have done their part.
    bool is_unfinished() const { return has_run_ && (is_unfinished_ || launcher_left_ranks()); }
    // A rank has gone without a word before any of the job had ended it.
    bool saw_fault() const { return is_fault_; }
    const std::vector<LostNode> &lost() const { return lost_; } // in this run
    int64_t lease_ns() const { return lease_ns_; }

    // When all processes on this node have ended: the time of CLOCK_BOOTTIME from which on those of
    // other nodes have ended, too; 0: they have. `daemon_ended`: a time after which the daemon was
    // gone; none: it is still there.
    Result<int64_t> when_gone(std::optional<int64_t> daemon_ended) const;

  private:
    Run run_ = Run::first;
    pid_t keeper_ = 0;
    bool has_begun_ = false;
    bool has_run_ = false; // all ranks were there
    int64_t lease_ns_ = 0; // the longest time that a node acts after the daemon's end
    // A rank was on another node when all were there last, in whatever run.
    std::optional<bool> is_elsewhere_;
    uint64_t heard_ns_ = 0;
    bool is_unfenced_ = false; // one that has no lease, and is not below the supervisor
    std::optional<bool> outlived_;
    bool is_unfinished_ = false; // as the daemon has told (coord/endings.hpp)
    bool is_fault_ = false;
    std::optional<std::vector<std::string>> left_; // nodes
    int64_t until_ns_ = 0;
    std::vector<LostNode> lost_;
};

} // namespace cryo::recover
