// SPDX-License-Identifier: Apache-2.0
#include "standstill_watch.hpp"

#include <fmt/format.h>
#include <stdexcept>
#include <utility>

namespace cryo::coord::sim {

StandstillWatch::StandstillWatch(Loop &loop, int64_t every_ms, std::string what, Look look)
    : loop_(loop), every_ms_(every_ms), what_(std::move(what)), look_(std::move(look))
{
    look_later();
}

StandstillWatch::~StandstillWatch()
{
    loop_.call_off(timer_);
}

void StandstillWatch::run()
{
    loop_.resume();
    loop_.run();
    if (stands_still())
        throw std::runtime_error(fmt::format("{}: nothing happens any more: {}", what_, found_));
}

void StandstillWatch::look_later()
{
    timer_ = loop_.after(every_ms_, [this] {
        std::string found = look_();
        same_ = found == found_ ? same_ + 1 : 0;
        found_ = std::move(found);
        if (stands_still())
            loop_.stop();
        else
            look_later();
    });
}

} // namespace cryo::coord::sim
