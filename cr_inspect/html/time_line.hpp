// SPDX-License-Identifier: Apache-2.0
//
// When what was written, and how large: checkpoints of a process, versions of a file, snapshots of
// a job.
//
//     TimeLine line("Snapshots of the job");
//     line.add({.at = created, .bytes = 4 << 20, .label = "3"});
//     line.draw(page);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "html/writer.hpp"

namespace cryo::inspect {

struct Moment {
    int64_t at = 0; // nanoseconds since the epoch
    uint64_t bytes = 0;
    std::string label = {};
    bool part = false;    // it needs another one to be restored: a delta
    bool current = false; // it is what the page is about
};

class TimeLine
{
  public:
    explicit TimeLine(std::string label) : label_(std::move(label)) {}

    void add(Moment moment) { moments_.push_back(std::move(moment)); }
    // Nothing, of less than two moments.
    void draw(Html &page);

  private:
    void merge();
    void draw_caption(Html &page) const;
    void draw_sizes(Html &page, uint64_t largest) const;
    void draw_times(Html &page) const;
    void draw_bar(Html &page, const Moment &moment, uint64_t largest, bool with_size) const;
    double x_of(int64_t time) const;

    std::string label_;
    std::vector<Moment> moments_ = {};
    int64_t first_ = 0;
    int64_t last_ = 0;
};

// Of a time as Open MPI's metadata have it, "Sat Nov 28 12:00:01 2026", in local time. Empty: it is
// none.
std::optional<int64_t> time_in_words(const std::string &text);

} // namespace cryo::inspect
