// SPDX-License-Identifier: Apache-2.0
#include "coord/strangers.hpp"

#include <algorithm>
#include <map>

namespace cryo::coord {

namespace {

constexpr int steps = 10;

}

void Strangers::meet(const std::shared_ptr<Channel> &channel, const std::string &address)
{
    all_.push_back({channel, address});
    channel->on_end = [this, at = channel.get()] { known(*at); };
    wait(channel, steps);
    if (all_.size() > limits_.most)
        make_room();
}

// In steps, each of which lets the loop look at the connection: time in which this daemon was busy
// with somebody else is one step, and is not held against a peer that has proven itself meanwhile.
void Strangers::wait(const std::weak_ptr<Channel> &channel, int left)
{
    loop_.after(limits_.milliseconds / steps, [this, channel, left] {
        const std::shared_ptr<Channel> one = channel.lock();
        if (one && left > 1)
            wait(channel, left - 1);
        else if (one && known(*one))
            one->close();
    });
}

bool Strangers::known(const Channel &channel)
{
    return std::erase_if(all_, [&](const One &one) { return one.channel.get() == &channel; }) != 0;
}

// By chance, not by age: otherwise a fast flood would close
// each legitimate connection before its peer has sent anything.
void Strangers::make_room()
{
    std::map<std::string, std::vector<size_t>> by_address;
    for (size_t i = 0; i < all_.size(); i++)
        by_address[all_[i].address].push_back(i);
    const auto crowd = std::ranges::max_element(
        by_address, {}, [](const auto &entry) { return entry.second.size(); });
    const size_t chosen = crowd->second[random_() % crowd->second.size()];
    const std::shared_ptr<Channel> one = all_[chosen].channel;
    all_.erase(all_.begin() + static_cast<std::ptrdiff_t>(chosen));
    one->close();
}

} // namespace cryo::coord
