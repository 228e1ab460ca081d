// SPDX-License-Identifier: Apache-2.0
//
// Shows the progress of a long operation: one line on standard error, if that is a terminal,
// updated several times a second and erased when the operation ends.
//
//     cli::ProgressLine line("job.dump", !quiet);
//     service->add(request, line.reporter());
#pragma once

#include <cstdint>
#include <functional>
#include <string>

namespace cryo::cli {

class ProgressLine
{
  public:
    ProgressLine(std::string what, bool wanted);
    ~ProgressLine();
    ProgressLine(const ProgressLine &) = delete;
    ProgressLine &operator=(const ProgressLine &) = delete;

    // Empty where nothing is to be shown.
    std::function<void(uint64_t done, uint64_t total)> reporter();

  private:
    void show(uint64_t done, uint64_t total);

    std::string what_;
    bool wanted_;
    bool shown_ = false;
    int64_t begun_ = 0; // nanoseconds of CLOCK_MONOTONIC
    int64_t next_ = 0;  // when to show again, nanoseconds of CLOCK_MONOTONIC
};

} // namespace cryo::cli
