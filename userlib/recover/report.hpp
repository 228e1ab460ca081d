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

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cryo::recover {

class Report
{
  public:
    void begin(Fd pipe);
    void end() { pipe_.reset(); }
    int fd() const { return pipe_ ? pipe_.get() : -1; } // −1: nobody can report any more
    // The objects that have come, without waiting for more.
    std::vector<nlohmann::json> read();

  private:
    Fd pipe_;
    std::string text_; // the beginning of a line
};

} // namespace cryo::recover
