// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.hpp"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include "cli/text.hpp"

namespace cryo::cli {

namespace {

constexpr int64_t kFirst = 500'000'000; // what is over sooner shows nothing
constexpr int64_t kEvery = 200'000'000;

int64_t now()
{
    timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return ts.tv_sec * 1'000'000'000 + ts.tv_nsec;
}

} // namespace

ProgressLine::ProgressLine(std::string what, bool wanted)
    : what_(std::move(what)), wanted_(wanted && isatty(STDERR_FILENO)), next_(now() + kFirst)
{}

ProgressLine::~ProgressLine()
{
    if (shown_)
        fmt::print(stderr, "\r\033[K");
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
    fmt::print(stderr, "\r{}: {} of {}, {:.0f} %\033[K", printable(what_), size_text(done),
               size_text(total), total ? 100.0 * double(done) / double(total) : 100.0);
    fflush(stderr);
}

} // namespace cryo::cli
