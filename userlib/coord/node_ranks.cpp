// SPDX-License-Identifier: Apache-2.0
#include "coord/node_ranks.hpp"

#include "coord/job.hpp"
#include "coord/patience.hpp"
#include "coord/rank_end.hpp"

#include <algorithm>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <utility>

namespace cryo::coord {

namespace {

// Clients on this host are known to be of the same user.
constexpr Strangers::Limits from_here = {.most = 4096, .milliseconds = 10'000};
constexpr size_t most_name = 256; // of the job at the launcher

bool is_printable(std::string_view text)
{
    return text.size() <= most_name &&
           std::ranges::all_of(text, [](char c) { return c >= ' ' && c <= '~'; });
}

} // namespace

NodeRanks::NodeRanks(Loop &loop, Report report)
    : loop_(loop), report_(std::move(report)), strangers_(loop, from_here)
{}

Result<void> NodeRanks::listen(const std::string &path)
{
    Result<Fd> listener = listen_at(path);
    if (!listener)
        return listener.error();
    listener_ = std::move(*listener);
    loop_.watch(listener_.get(), POLLIN, [this](short) { accept(); });
    return {};
}

NodeRank *NodeRanks::find(uint32_t number)
{
    const auto at = all_.find(number);
    return at != all_.end() ? &at->second : nullptr;
}

void NodeRanks::accept()
{
    const std::shared_ptr<Channel> channel = Channel::accept(loop_, listener_.get());
    if (channel != nullptr)
        meet(channel);
}

void NodeRanks::meet(const std::shared_ptr<Channel> &channel)
{
    strangers_.meet(channel, "");
    Channel *at = channel.get();
    channel->on_frame = [this, at](FrameKind kind, std::string_view body) {
        const std::shared_ptr<Channel> one = at->shared_from_this();
        strangers_.known(*one);
        if (kind == FrameKind::hello)
            greet(one, body);
        else if (kind == FrameKind::leash)
            leashes_.hold(one);
        else if (kind == FrameKind::ending)
            hear_ending(one, body);
        else
            one->close();
    };
}

void NodeRanks::greet(const std::shared_ptr<Channel> &channel, std::string_view body)
{
    Hello hello;
    if (body.size() < sizeof(hello)) {
        channel->refuse();
        return;
    }
    memcpy(&hello, body.data(), sizeof(hello));
    std::string refused;
    if (hello.version != hello_version && hello.version != hello_without_ending)
        refused = "the daemon of this node is of another version of Cryo";
    else if (hello.rank >= hello.ranks || hello.ranks > most_ranks)
        refused = fmt::format("there is no rank {} of {}", hello.rank, hello.ranks);
    else if (!is_printable(body.substr(sizeof(hello))))
        refused = "the launcher's name of the job is no text";
    else if (all_.contains(hello.rank))
        refused = fmt::format("rank {} is there already: one job runs under one mpirun at a time",
                              hello.rank);
    if (leashes_.are_wanted())
        channel->send(FrameKind::leash, {});
    if (!refused.empty()) {
        channel->send(FrameKind::refused, refused);
        channel->close_when_sent();
        return;
    }
    had_any_ = true;
    NodeRank &rank = all_[hello.rank];
    rank.number = hello.rank;
    rank.pid = channel->peer().pid;
    rank.channel = channel;
    rank.well = hello.version == hello_without_ending; // as far as anybody will know
    const uint32_t number = hello.rank;
    channel->on_frame = [this, number](FrameKind kind, std::string_view frame) {
        if (NodeRank *one = find(number))
            this->frame(*one, kind, frame);
    };
    channel->on_end = [this, number] { on_end(number); };
    const Welcome welcome = {
        .patience_ms = static_cast<uint32_t>((patience_of_ranks * longest_silence()).count())};
    channel->send(FrameKind::welcome, {reinterpret_cast<const char *>(&welcome), sizeof(welcome)});
    rank.news = Message(Type::rank, {{"rank", number},
                                     {"ranks", hello.ranks},
                                     {"pid", rank.pid},
                                     {"space", body.substr(sizeof(hello))}});
    if (!leashes_.are_wanted())
        report_(*std::exchange(rank.news, std::nullopt));
}

// A process that is no rank of the job's, or not any more, waits for nobody.
void NodeRanks::hear_ending(const std::shared_ptr<Channel> &channel, std::string_view body)
{
    const int pid = channel->peer().pid;
    const auto at =
        std::ranges::find_if(all_, [pid](const auto &one) { return one.second.pid == pid; });
    const bool is_known = at != all_.end() && !at->second.news && body.size() == sizeof(Ending) &&
                          static_cast<uint8_t>(body[0]) <= static_cast<uint8_t>(Ending::given_up);
    const auto how = is_known ? static_cast<Ending>(body[0]) : Ending::well;
    if (is_known)
        at->second.well = how != Ending::given_up;
    if (how == Ending::well) {
        channel->send(FrameKind::ending, {});
        channel->close_when_sent();
        return;
    }
    at->second.ending = channel;
    report_(Message(Type::ends,
                    {{"rank", at->second.number}, {"by_itself", how == Ending::by_itself}}));
}

void NodeRanks::may_end(uint32_t number)
{
    NodeRank *rank = find(number);
    if (rank == nullptr || rank->ending == nullptr)
        return;
    const std::shared_ptr<Channel> channel = std::exchange(rank->ending, nullptr);
    channel->send(FrameKind::ending, {});
    channel->close_when_sent();
}

// A rank that could outlive this daemon is not told of, so it is not in the job.
void NodeRanks::frame(NodeRank &rank, FrameKind kind, std::string_view body)
{
    if (!rank.news)
        on_frame(rank, kind, body);
    else if (kind == FrameKind::leash && leashes_.holds(rank.pid))
        report_(*std::exchange(rank.news, std::nullopt));
}

} // namespace cryo::coord
