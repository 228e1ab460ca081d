// SPDX-License-Identifier: Apache-2.0
#include "frame_counts.hpp"

#include "bookmark/wire.hpp"
#include "in_process.hpp"

#include <fmt/format.h>
#include <utility>

namespace cryo::coord::sim {

namespace {

std::string name_of(bookmark::MessageType type)
{
    static constexpr const char *names[] = {"request", "targets", "need",    "unneed", "expected",
                                            "go",      "abandon", "inquire", "clocks", "raise",
                                            "ready",   "drained", "state",   "want"};
    const auto at = static_cast<size_t>(type) - 1;
    return at < std::size(names) ? names[at] : "?";
}

// Keys of a message are in the order of their names, so this one is near the end.
std::string type_in(std::string_view json)
{
    constexpr std::string_view key = "\"type\":\"";
    const size_t at = json.rfind(key);
    if (at == std::string_view::npos)
        return "?";
    json.remove_prefix(at + key.size());
    return std::string(json.substr(0, json.find('"')));
}

} // namespace

std::string kind_of(FrameKind kind, std::string_view body)
{
    if (kind == FrameKind::bookmark && !body.empty())
        return "exchange: " + name_of(static_cast<bookmark::MessageType>(body[0]));
    if (kind != FrameKind::json)
        return fmt::format("frame {}", static_cast<unsigned>(kind));
    const std::string type = type_in(body);
    if (type != "reports")
        return type;
    for (const char *part : {"images", "prepared", "cut", "alive"}) {
        if (body.find(fmt::format("\"{}\"", part)) != std::string_view::npos)
            return fmt::format("reports: {}", part);
    }
    return type;
}

void FrameCounts::come_by(Channel &channel)
{
    channel.on_frame = [this, told = std::move(channel.on_frame)](FrameKind kind,
                                                                  std::string_view body) {
        const double begun = seconds_of(CLOCK_THREAD_CPUTIME_ID);
        told(kind, body);
        const double taken = seconds_of(CLOCK_THREAD_CPUTIME_ID) - begun;
        const std::lock_guard lock(mutex_);
        OfKind &one = kinds_[kind_of(kind, body)];
        one.to_root++;
        one.seconds += taken;
    };
}

void FrameCounts::go_by(Channel &channel)
{
    channel.on_frame = [this, told = std::move(channel.on_frame)](FrameKind kind,
                                                                  std::string_view body) {
        {
            const std::lock_guard lock(mutex_);
            kinds_[kind_of(kind, body)].from_root++;
        }
        told(kind, body);
    };
}

Kinds FrameCounts::take()
{
    const std::lock_guard lock(mutex_);
    return std::exchange(kinds_, {});
}

} // namespace cryo::coord::sim
