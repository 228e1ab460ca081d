// SPDX-License-Identifier: Apache-2.0
#include "redundancy/rows.hpp"

#include <algorithm>
#include <cassert>

namespace cryo::redundancy {

Rows::Rows(const Scheme &scheme, std::vector<uint64_t> blocks)
    : scheme_(scheme), left_(std::move(blocks)), gives_(left_.size())
{
    assert(left_.size() >= fewest_members(scheme_));
}

bool Rows::next()
{
    const auto is_over = [](uint64_t left) { return left == 0; };
    if (std::ranges::all_of(left_, is_over))
        return false;
    do {
        place(turn_++);
    } while (!take());
    number_ = turn_ - 1;
    return true;
}

void Rows::place(uint64_t turn)
{
    const auto members = static_cast<uint32_t>(left_.size());
    const auto first = static_cast<uint32_t>(turn % members);
    data_.clear();
    parity_.clear();
    if (scheme_.kind == Kind::partner) {
        data_.push_back(first);
        parity_.push_back((first + 1) % members);
        return;
    }
    for (uint32_t i = 0; i < members; i++) {
        const bool keeps = (i + members - first) % members < scheme_.losses;
        (keeps ? parity_ : data_).push_back(i);
    }
}

bool Rows::take()
{
    std::fill(gives_.begin(), gives_.end(), false);
    bool any = false;
    for (const uint32_t member : data_) {
        gives_[member] = left_[member] > 0;
        left_[member] -= gives_[member] ? 1 : 0;
        any = any || gives_[member];
    }
    return any;
}

uint32_t Rows::data_count() const
{
    return scheme_.kind == Kind::partner ? 1 : static_cast<uint32_t>(left_.size()) - scheme_.losses;
}

uint32_t Rows::parity_count() const
{
    return scheme_.losses;
}

} // namespace cryo::redundancy
