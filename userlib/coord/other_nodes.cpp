// SPDX-License-Identifier: Apache-2.0
#include "coord/other_nodes.hpp"

#include "coord/daemon.hpp"
#include "coord/spread.hpp"

namespace cryo::coord {

namespace {

constexpr std::chrono::seconds longest_arrival{2}; // of all ranks, after the first
constexpr std::chrono::seconds longest_start{3};   // of a launcher whose ranks are unknown
constexpr int64_t look_soon_ms = 20;
constexpr int64_t look_later_ms = 250;

} // namespace

void OtherNodes::look_for_them()
{
    if (looks_)
        return;
    looks_ = true;
    looked_from_ = Clock::now();
    first_rank_.reset();
    look();
}

void OtherNodes::look()
{
    if (!ranks_.all().empty() && !first_rank_)
        first_rank_ = Clock::now();
    if (ranks_.are_there() || local_.listens_to_daemons()) {
        looks_ = false;
        return;
    }
    const auto now = Clock::now();
    const Spread spread = spread_of(launcher_);
    if (spread == Spread::several && on_several)
        on_several();
    if (spread == Spread::several || (first_rank_ && now - *first_rank_ > longest_arrival) ||
        (spread == Spread::unknown && ranks_.all().empty() && now - looked_from_ > longest_start)) {
        looks_ = false;
        if (Result<void> done = local_.listen_to_daemons(); !done)
            ranks_.lose(done.error().text());
        return;
    }
    const bool soon = now - looked_from_ < longest_start;
    loop_.after(soon ? look_soon_ms : look_later_ms, [this] {
        if (looks_)
            look();
    });
}

} // namespace cryo::coord
