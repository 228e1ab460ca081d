// SPDX-License-Identifier: Apache-2.0
#include "coord/notices.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

namespace {

constexpr size_t longest_notice = 1 << 15;
constexpr size_t most_notice_bytes = 8 << 20; // in JSON at most six times as many

} // namespace

void Notices::add(std::string notice)
{
    notice.resize(std::min(notice.size(), longest_notice));
    const size_t bytes = notice.size() + 16; // what is around it
    if (bytes_ + bytes > most_notice_bytes) {
        left_out_++;
        return;
    }
    bytes_ += bytes;
    all_.push_back(std::move(notice));
}

std::vector<std::string> Notices::all() const
{
    std::vector<std::string> all = all_;
    if (left_out_ > 0)
        all.push_back(fmt::format("{} more notices of ranks are left out", left_out_));
    return all;
}

} // namespace cryo::coord
