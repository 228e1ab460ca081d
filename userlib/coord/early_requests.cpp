// SPDX-License-Identifier: Apache-2.0
#include "coord/early_requests.hpp"

#include "coord/watchers.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

constexpr int64_t most_early_s = 60;

} // namespace

void EarlyRequests::add(const std::shared_ptr<Channel> &channel, const json &request)
{
    const int64_t patience = request.value("patience", int64_t(0));
    const int64_t limit = patience > 0 ? std::min(patience, most_early_s) : most_early_s;
    EarlyRequest early = {channel, request, 0, ""};
    early.limit = loop_.after(limit * 1000, [this, channel, limit] {
        const Result<void> ready = ranks_.complete();
        if (forget(channel) && !ready)
            channel->send(end_of(Error(ready.error().code(),
                                       fmt::format("after {} s {}", limit, ready.error().text()))));
    });
    all_.push_back(std::move(early));
}

bool EarlyRequests::forget(const std::shared_ptr<Channel> &channel)
{
    for (auto at = all_.begin(); at != all_.end(); ++at) {
        if (at->channel == channel) {
            loop_.call_off(at->limit);
            all_.erase(at);
            return true;
        }
    }
    return false;
}

void EarlyRequests::tell(const std::string &why)
{
    for (EarlyRequest &one : all_) {
        if (one.told != why)
            one.channel->send(Message(Type::missing, {{"text", why}}));
        one.told = why;
    }
}

std::vector<EarlyRequest> EarlyRequests::take()
{
    for (const EarlyRequest &one : all_)
        loop_.call_off(one.limit);
    return std::exchange(all_, {});
}

} // namespace cryo::coord
