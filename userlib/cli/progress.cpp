// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"
#include "base/clock.hpp"
#include "base/print.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include "cli/text.hpp"

namespace cryo::cli {

namespace {

constexpr int64_t kFirst = 1'000'000'000; // shorter operations show nothing
constexpr int64_t kEvery = 200'000'000;

int64_t now()
{
    return clock_ns(CLOCK_MONOTONIC);
}

} // namespace

ProgressLine::ProgressLine(std::string what, bool wanted)
    : what_(std::move(what)), wanted_(wanted && isatty(STDERR_FILENO)), begun_(now()),
      next_(begun_ + kFirst)
{}

ProgressLine::~ProgressLine()
{
    if (shown_)
        cryo::print(stderr, "\r\033[K");
}

std::function<void(uint64_t, uint64_t)> ProgressLine::reporter()
{
    if (!wanted_)
        return {};
    return [this](uint64_t done, uint64_t total) { show(done, total); };
}

void ProgressLine::show(uint64_t done, uint64_t total)
{
    int64_t at = now();
    if (at < next_)
        return;
    next_ = at + kEvery;
    shown_ = true;
    const double part = total != 0 ? std::min(1.0, double(done) / double(total)) : 1.0;
    const double seconds = double(at - begun_) / 1e9;
    const auto rate = uint64_t(double(done) / seconds);
    const uint64_t left = total > done ? total - done : 0;
    const std::string wait =
        rate != 0 ? duration_text(uint64_t(double(left) / double(rate) * 1e9)) : "?";
    constexpr size_t kWidth = 20;
    const auto full = size_t(part * kWidth);
    cryo::print(stderr, "\r{}: [{}{}] {:.0f} %, {} of {}, {}/s, {} left\033[K", printable(what_),
                std::string(full, '#'), std::string(kWidth - full, ' '), 100.0 * part,
                size_text(done), size_text(total), size_text(rate), wait);
    fflush(stderr);
}

} // namespace cryo::cli
