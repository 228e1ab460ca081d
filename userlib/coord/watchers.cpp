// SPDX-License-Identifier: Apache-2.0
#include "coord/watchers.hpp"

namespace cryo::coord {

Message end_of(const Error &error)
{
    return Message(Type::end, {{"ok", false}, {"code", error.code()}, {"error", error.text()}});
}

void Watchers::tell(const Message &message) const
{
    const auto all = all_; // one of them may be removed while it is sent to
    for (const std::shared_ptr<Channel> &one : all)
        one->send(message);
}

void Watchers::say(std::string state)
{
    state_ = std::move(state);
    tell(Message(Type::state, {{"state", state_}}));
}

} // namespace cryo::coord
