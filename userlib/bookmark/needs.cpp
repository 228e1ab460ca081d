// SPDX-License-Identifier: Apache-2.0
#include "bookmark/needs.hpp"

#include <algorithm>

namespace cryo::bookmark {

Needs::Needs(const Communicators &communicators, Reports &reports,
             std::pmr::memory_resource *memory)
    : communicators_(communicators), reports_(reports), own_(memory), others_(memory)
{}

void Needs::announce(const Need &need)
{
    auto same = std::find_if(own_.begin(), own_.end(),
                             [&](const Need &n) { return n.to == need.to && n.comm == need.comm; });
    if (same != own_.end() && same->have == need.have)
        return;
    if (same == own_.end())
        own_.push_back(need);
    else
        *same = need;
    reports_.need(MessageType::need, need);
}

void Needs::withdraw()
{
    for (const Need &need : own_)
        reports_.need(MessageType::unneed, need);
    own_.clear();
}

void Needs::add(const Need &need)
{
    if (need.from == reports_.self())
        return;
    remove(need);
    uint64_t sent = communicators_.sent_to(need.from).messages;
    if (need.comm)
        others_.push_back({need.from, need.comm, sent});
    else if (sent <= need.have) // otherwise a message is in flight already
        others_.push_back({need.from, 0, need.have});
}

void Needs::remove(const Need &need)
{
    std::erase_if(others_,
                  [&](const Needed &n) { return n.by == need.from && n.comm == need.comm; });
}

bool Needs::is_needed(bool by_name) const
{
    return std::any_of(others_.begin(), others_.end(), [&](const Needed &n) {
        return !(by_name && n.comm) && communicators_.sent_to(n.by).messages <= n.sent;
    });
}

void Needs::clear()
{
    own_.clear();
    others_.clear();
}

} // namespace cryo::bookmark
