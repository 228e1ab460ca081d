// SPDX-License-Identifier: Apache-2.0
#include "coord/commands.hpp"

#include "coord/job.hpp"
#include "coord/watchers.hpp"

#include <poll.h>
#include <utility>

namespace cryo::coord {

namespace {

constexpr int64_t client_beat_ms = 1000;

} // namespace

Result<void> Commands::listen(const std::string &path)
{
    Result<Fd> listener = listen_at(path);
    if (!listener)
        return listener.error();
    listener_ = std::move(*listener);
    loop_.watch(listener_.get(), POLLIN, [this](short) { accept(); });
    return {};
}

void Commands::accept()
{
    const std::shared_ptr<Channel> channel = Channel::accept(loop_, listener_.get());
    if (channel == nullptr)
        return;
    clients_.insert(channel);
    if (!std::exchange(beats_, true))
        tell_of_life();
    Channel *at = channel.get();
    channel->on_end = [this, at] {
        const std::shared_ptr<Channel> one = at->shared_from_this();
        clients_.erase(one);
        on_end(one);
    };
    channel->on_frame = [this, at](FrameKind, std::string_view body) {
        const Result<Message> message = unpack(Speaker::command, body);
        if (message)
            on_message(at->shared_from_this(), *message);
        else
            at->send(end_of(message.error().within("the job's daemon")));
    };
}

// A command waits only as long as the daemon gives signs of life.
void Commands::tell_of_life()
{
    loop_.after(client_beat_ms, [this] {
        const auto all = clients_; // one of them may be removed while it is sent to
        for (const std::shared_ptr<Channel> &one : all)
            one->send(Message(Type::working));
        beats_ = !clients_.empty();
        if (beats_)
            tell_of_life();
    });
}

} // namespace cryo::coord
