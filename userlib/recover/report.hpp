// SPDX-License-Identifier: Apache-2.0
//
// The pipe on which cr_restart tells that a program is back, and the first daemon of a job how that
// stands: lines of JSON.
//
//     report.begin(std::move(pipe));
//     ... poll(report.fd()) ...
//     for (const nlohmann::json &line : report.read())
#pragma once

#include "base/fd.hpp"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::recover {

class Report
{
  public:
    void begin(Fd pipe);
    void end() { pipe_.reset(); }
    int fd() const { return pipe_ ? pipe_.get() : -1; } // −1: nobody can report any more
    // All who could report have ended.
    bool has_ended() const { return has_ended_; }
    // The objects that have come, without waiting for more.
    // A writer of lines without end is not listened to any more.
    std::vector<nlohmann::json> read();

  private:
    Fd pipe_;
    std::string text_; // the beginning of a line
    bool has_ended_ = false;
};

// Of a line; none: it has no such field, or one of another type than Cryo gives it.
std::optional<bool> flag_in(const nlohmann::json &line, const char *name);
std::optional<int64_t> number_in(const nlohmann::json &line, const char *name);
// 0: none.
pid_t process_in(const nlohmann::json &line, const char *name);

} // namespace cryo::recover
