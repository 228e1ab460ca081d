// SPDX-License-Identifier: Apache-2.0
// What the coordinator hears from commands, and says to them.
#include "coord/coordinator.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

namespace {

constexpr int64_t client_beat_ms = 1000;

} // namespace

void Coordinator::accept_command()
{
    Fd fd(accept4(commands_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!fd) {
        loop_.rest(commands_.get());
        return;
    }
    const uint32_t uid = peer_of(fd.get()).uid;
    if (uid != geteuid() && uid != 0)
        return;
    const std::shared_ptr<Channel> channel = Channel::make(loop_, std::move(fd));
    clients_.insert(channel);
    if (!std::exchange(beats_, true))
        tell_clients_of_life();
    Channel *at = channel.get();
    channel->on_end = [this, at] {
        const std::shared_ptr<Channel> one = at->shared_from_this();
        clients_.erase(one);
        watchers_.erase(one);
        forget_early(one);
    };
    channel->on_frame = [this, at](FrameKind, std::string_view body) {
        const Result<Message> message = unpack(Speaker::command, body);
        if (message)
            command(at->shared_from_this(), *message);
        else
            at->send(end_of(message.error().within("the job's daemon")));
    };
}

// A command waits only as long as the daemon gives signs of life.
void Coordinator::tell_clients_of_life()
{
    loop_.after(client_beat_ms, [this] {
        const auto all = clients_; // one of them may be removed while it is sent to
        for (const std::shared_ptr<Channel> &one : all)
            one->send(Message(Type::working));
        beats_ = !clients_.empty();
        if (beats_)
            tell_clients_of_life();
    });
}

void Coordinator::command(const std::shared_ptr<Channel> &channel, const Message &message)
{
    switch (message.type) {
    case Type::checkpoint:
        want(channel, message.fields);
        break;
    case Type::status_wanted:
        channel->send(status());
        break;
    case Type::call_off:
        if (forget_early(channel))
            channel->send(end_of(Error(ECANCELED, "it was called off")));
        else if (now_ && (now_->stage == Stage::preparing || now_->stage == Stage::pending ||
                          now_->stage == Stage::running))
            give_up("it was called off", ECANCELED);
        break;
    case Type::continue_wanted:
        tell_all(Message(Type::go_on));
        // Answered when the ranks have gone on and said so.
        if (now_ && now_->stage == Stage::held)
            watchers_.insert(channel);
        else
            channel->send(Message(Type::end, {{"ok", true}}));
        break;
    default:
        break;
    }
}

Message Coordinator::status() const
{
    json ranks = json::array();
    for (const auto &[number, place] : ranks_) {
        const auto at = members_.find(place.member);
        ranks.push_back({{"rank", number},
                         {"pid", place.pid},
                         {"node", at != members_.end() ? at->second.name : ""}});
    }
    const Result<void> ready = complete();
    return Message(Type::status, {{"job", job_.id},
                                  {"launcher", job_.launcher},
                                  {"state", state_},
                                  {"ranks", ranks},
                                  {"expected", expected_ranks_},
                                  {"ready", bool(ready)},
                                  {"why", ready ? "" : ready.error().text()},
                                  {"checkpoints", checkpoints_}});
}

} // namespace cryo::coord
