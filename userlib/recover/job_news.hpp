// SPDX-License-Identifier: Apache-2.0
//
// What the first daemon of a supervised job has told of it (coord/supervised.hpp), and what
// follows.
//
//     news.begin_run();
//     if (news.take(line) == JobNews::now_running) ...
//     Result<void> alone = news.check_end();     // nothing of the job is left on other nodes
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::recover {

class JobNews
{
  public:
    // A launcher is started.
    void begin_run();
    pid_t keeper() const { return keeper_; } // of this run, as ompi-restart has told; 0: none
    // True: all ranks are there.
    bool take(const nlohmann::json &line);

    // Of a line, whatever it says: a daemon that completes a snapshot says so now and then.
    void heard(uint64_t now_ns) { heard_ns_ = now_ns; }
    // Whether nothing has come for so long, since the wait for it began, that nothing will come.
    bool is_silent(uint64_t begun_ns, uint64_t now_ns) const;

    // If nothing more can come: the daemon has ended before the job.
    bool was_left() const { return has_begun_ && !left_ && !outlived_; }

    bool knows_launchers_end() const { return outlived_.has_value(); }
    // Ranks were there still when the launcher had ended.
    bool launcher_left_ranks() const { return outlived_.value_or(false); }
    // When all processes on this node have ended, and the daemon too: those of other nodes have.
    Result<void> check_end() const;

  private:
    pid_t keeper_ = 0;
    bool has_begun_ = false; // there was a daemon
    bool has_run_ = false;   // all ranks were there
    // A rank was on another node when all were there last, in whatever run.
    std::optional<bool> is_elsewhere_;
    uint64_t heard_ns_ = 0;
    std::optional<bool> outlived_;
    std::optional<std::vector<std::string>> left_; // nodes
};

} // namespace cryo::recover
