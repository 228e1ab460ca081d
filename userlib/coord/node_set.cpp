// SPDX-License-Identifier: Apache-2.0
#include "coord/node_set.hpp"

#include "base/printable.hpp"
#include "coord/net.hpp"
#include "coord/patience.hpp"
#include "coord/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;
using redundancy::Description;
using redundancy::Exchange;
using redundancy::SetFile;

namespace {

// A member may not know of the set yet: all are told of it at the same time.
constexpr int64_t first_try_ms = 10;
constexpr int64_t longest_try_ms = 500;
constexpr int most_doublings = 6;
// Times the longest silence of a daemon: as long may pass without a block of any member.
constexpr int block_patience = 12;

// Of the end that connects, which is the later member.
std::string identity_of(const Description &set, uint32_t from, uint32_t to)
{
    return fmt::format("set/{}/{}/{}", set.id, from, to);
}

Result<Description> description_in(const json &fields)
{
    const Result<redundancy::Scheme> scheme =
        redundancy::parse_scheme(fields.at("redundancy").get<std::string>());
    if (!scheme)
        return scheme.error();
    Description set;
    set.id = fields.at("id");
    set.scheme = *scheme;
    set.member = fields.at("member");
    for (const json &one : fields.at("members")) {
        redundancy::SetMember member;
        member.node = one.at("node");
        for (const json &image : one.at("images"))
            member.files.push_back({.name = file_in_level(image.at("rank"), image.at("pid")),
                                    .bytes = image.at("bytes"),
                                    .checksum = image.at("checksum")});
        set.members.push_back(std::move(member));
    }
    return set;
}

std::string_view text_of(const void *bytes, size_t size)
{
    return {static_cast<const char *>(bytes), size};
}

// A member that cannot be reached would hold this daemon up each time.
bool is_out_of_reach(int code)
{
    return code == ETIMEDOUT || code == EHOSTUNREACH || code == ENETUNREACH;
}

} // namespace

NodeSet::NodeSet(Loop &loop, Report report) : loop_(loop), report_(std::move(report)) {}

NodeSet::~NodeSet()
{
    end();
}

void NodeSet::begin(const Message &message, const Directory &level, const std::vector<SetFile> &own)
{
    end();
    const Result<void> started = start(message, level, own);
    if (started)
        return;
    if (now_) {
        over(started);
        return;
    }
    report_(Message(Type::encoded, {{"checkpoint", message.fields.at("checkpoint")},
                                    {"error", printable_message(started.error().text())},
                                    {"code", started.error().code()}}));
}

Result<void> NodeSet::start(const Message &message, const Directory &level,
                            const std::vector<SetFile> &own)
{
    Result<Description> set = description_in(message.fields);
    if (!set)
        return set.error();
    if (Result<void> good = redundancy::check(*set, level.path()); !good)
        return good;
    if (set->members[set->member].files != own)
        return Error(EBADMSG, level.path() + ": has other images than those that the job's first "
                                             "daemon names");
    Result<Directory> directory = Directory::of(level.fd(), level.path());
    if (!directory)
        return directory.error();
    now_ = std::make_unique<Coding>(message.fields.at("checkpoint"), std::move(*set),
                                    std::move(*directory));
    // Nothing is synced, as in the whole level: after a crash of the node checksums decide.
    now_->exchange = std::make_unique<Exchange>(now_->set, now_->directory, now_->trust, false,
                                                static_cast<Exchange::Post &>(*this));
    if (Result<void> linked = make_links(message.fields.at("members")); !linked)
        return linked;
    watch();
    connect_from(0);
    return {};
}

Result<void> NodeSet::make_links(const json &members)
{
    for (uint32_t other = 0; other < now_->links.size(); other++) {
        if (other == now_->set.member)
            continue;
        Link &link = now_->links[other];
        const json &said = members.at(other);
        const std::optional<Key> key = key_from_hex(said.value("key", ""));
        if (!key)
            return Error(EPROTO,
                         fmt::format("there is no key for node {}", now_->set.members[other].node));
        link.key = *key;
        link.addresses = said.value("addresses", std::vector<std::string>());
        link.port = said.value("port", uint16_t(0));
        link.heard = Clock::now();
    }
    return {};
}

void NodeSet::end()
{
    serial_++;
    if (!now_)
        return;
    loop_.call_off(now_->timer);
    for (const Link &link : now_->links) {
        if (link.channel)
            link.channel->close();
    }
    now_.reset();
}

// --------------------------------------------------------------------------------- connections

// To one member a turn: ranks, and the coordinator, hear of this daemon in between.
void NodeSet::connect_from(uint32_t other)
{
    if (other >= now_->set.member)
        return;
    loop_.after(0, [this, other, serial = serial_] {
        if (serial != serial_ || !is_coding())
            return;
        connect(other);
        if (is_coding())
            connect_from(other + 1);
    });
}

void NodeSet::connect(uint32_t other)
{
    Link &link = now_->links[other];
    Result<Fd> fd = connect_tcp(link.addresses, link.port);
    if (!fd && is_out_of_reach(fd.error().code())) {
        over(fd.error().within(
            fmt::format("node {} cannot be reached", now_->set.members[other].node)));
        return;
    }
    if (!fd) {
        try_again(other, fd.error().text());
        return;
    }
    link.channel = Channel::make(
        loop_, std::move(*fd),
        std::make_unique<Tls>(identity_of(now_->set, now_->set.member, other), link.key));
    const Channel *at = link.channel.get();
    link.channel->on_end = [this, other, at] { link_gone(other, at); };
    link.channel->on_secure = [this, other, at] {
        if (now_ && now_->links[other].channel.get() == at)
            link_up(other);
    };
}

void NodeSet::try_again(uint32_t other, const std::string &trouble)
{
    Link &link = now_->links[other];
    link.trouble = trouble;
    const int64_t wait =
        std::min(first_try_ms << std::min(link.tries++, most_doublings), longest_try_ms);
    loop_.after(wait, [this, other, serial = serial_] {
        if (serial == serial_ && is_coding())
            connect(other);
    });
}

std::optional<uint32_t> NodeSet::member_of(const std::string &identity) const
{
    for (uint32_t from = now_ ? now_->set.member + 1 : 0; now_ && from < now_->links.size();
         from++) {
        if (identity == identity_of(now_->set, from, now_->set.member))
            return from;
    }
    return std::nullopt;
}

std::optional<Key> NodeSet::key_of(const std::string &identity) const
{
    const std::optional<uint32_t> member = member_of(identity);
    return member ? std::optional(now_->links[*member].key) : std::nullopt;
}

void NodeSet::attach(const std::shared_ptr<Channel> &channel, const std::string &identity)
{
    const std::optional<uint32_t> member = member_of(identity);
    if (!member || now_->links[*member].is_up) { // a member connects once
        channel->refuse();
        return;
    }
    now_->links[*member].channel = channel;
    channel->on_end = [this, other = *member, at = channel.get()] { link_gone(other, at); };
    link_up(*member);
}

void NodeSet::link_up(uint32_t other)
{
    Link &link = now_->links[other];
    link.is_up = true;
    link.heard = Clock::now();
    link.channel->limit(now_->set.block + sizeof(uint64_t));
    link.channel->on_frame = [this, other, at = link.channel.get()](FrameKind kind,
                                                                    std::string_view body) {
        if (now_ && now_->links[other].channel.get() == at)
            frame(other, kind, body);
    };
    for (uint32_t one = 0; one < now_->links.size(); one++) {
        if (one != now_->set.member && !now_->links[one].is_up)
            return;
    }
    if (!now_->over)
        look(now_->exchange->begin());
}

void NodeSet::link_gone(uint32_t other, const Channel *channel)
{
    if (!is_coding() || now_->links[other].channel.get() != channel)
        return;
    if (now_->links[other].is_up)
        over(Error(ECONNRESET, fmt::format("the connection to node {} has ended",
                                           now_->set.members[other].node)));
    else
        try_again(other, "its daemon does not take the connection");
}

// -------------------------------------------------------------------------------------- blocks

void NodeSet::frame(uint32_t other, FrameKind kind, std::string_view body)
{
    if (now_->over) // the end of all is under way
        return;
    now_->links[other].heard = Clock::now();
    look(take(other, kind, body));
}

Result<void> NodeSet::take(uint32_t other, FrameKind kind, std::string_view body)
{
    if (kind == FrameKind::block && body.size() == sizeof(uint64_t) + now_->set.block) {
        uint64_t checksum = 0;
        memcpy(&checksum, body.data(), sizeof(checksum));
        const auto *bytes = reinterpret_cast<const uint8_t *>(body.data()) + sizeof(checksum);
        return now_->exchange->take_block(other, {bytes, now_->set.block}, checksum);
    }
    if (kind == FrameKind::leave && body.size() == sizeof(uint32_t)) {
        uint32_t blocks = 0;
        memcpy(&blocks, body.data(), sizeof(blocks));
        return now_->exchange->take_leave(other, blocks);
    }
    return Error(EPROTO, fmt::format("node {} has sent what no member of a set sends",
                                     now_->set.members[other].node));
}

void NodeSet::send_block(uint32_t to, image::Bytes block, uint64_t checksum)
{
    std::string body(text_of(&checksum, sizeof(checksum)));
    body.append(text_of(block.data(), block.size()));
    now_->links[to].channel->send(FrameKind::block, body);
}

void NodeSet::send_leave(uint32_t to, uint32_t blocks)
{
    now_->links[to].channel->send(FrameKind::leave, text_of(&blocks, sizeof(blocks)));
}

void NodeSet::look(const Result<void> &done)
{
    if (!done)
        over(done);
    else if (now_->exchange->is_complete())
        over(now_->exchange->commit());
}

// --------------------------------------------------------------------------------- end of it

void NodeSet::watch()
{
    now_->timer = loop_.after(longest_silence().count(), [this, serial = serial_] {
        if (serial != serial_ || !is_coding())
            return;
        if (const std::string who = silent(); !who.empty())
            over(Error(ETIMEDOUT, who));
        else
            watch();
    });
}

// "": a member has sent something lately; else which one has not for the longest time.
std::string NodeSet::silent() const
{
    const auto limit = block_patience * longest_silence();
    std::optional<uint32_t> first;
    for (uint32_t other = 0; other < now_->links.size(); other++) {
        if (other == now_->set.member)
            continue;
        const Link &link = now_->links[other];
        if (link.is_up && Clock::now() - link.heard < limit)
            return "";
        if (Clock::now() - link.heard >= limit &&
            (!first || link.heard < now_->links[*first].heard))
            first = other;
    }
    if (!first)
        return "";
    const Link &link = now_->links[*first];
    return link.is_up ? fmt::format("node {} has sent no block for {}",
                                    now_->set.members[*first].node, in_seconds(limit))
                      : fmt::format("node {} could not be reached for {}: {}",
                                    now_->set.members[*first].node, in_seconds(limit),
                                    link.trouble.empty() ? "it has not connected" : link.trouble);
}

// Connections stay until the end: others may still need what was sent, and none is to be named as
// the cause because it was told earlier.
void NodeSet::over(const Result<void> &done)
{
    now_->over = true;
    Message message(Type::encoded, {{"checkpoint", now_->checkpoint}});
    if (done) {
        const Result<std::optional<struct stat>> parity =
            now_->directory.look(redundancy::parity_name);
        message.fields["bytes"] =
            parity && *parity ? static_cast<uint64_t>((*parity)->st_size) : uint64_t(0);
    } else {
        message.fields["error"] = printable_message(done.error().text());
        message.fields["code"] = done.error().code();
    }
    now_->exchange.reset();
    report_(message); // may be what ends this object's part
}

} // namespace cryo::coord
