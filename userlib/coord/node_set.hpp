// SPDX-License-Identifier: Apache-2.0
//
// A daemon's part in the level "redundant" of a snapshot (docs/stores.md): with the daemons of the
// other nodes of its set it makes parity of their images, beside its own, while the job runs.
//
//     NodeSet set(loop, report);
//     set.begin(message, level.directory(), own);    // *encode*, from the coordinator
//     set.end();                                     // the checkpoint is over
//
// Each two members have a connection of their own, by TLS with a key that the coordinator has given
// these two. Names of files are made here of ranks and process ids, and what the message says of
// this node's images has to be what this node has. Other members only send blocks, of a size that
// is known, each with a checksum (redundancy/exchange.hpp).
#pragma once

#include "base/directory.hpp"
#include "base/trust.hpp"
#include "coord/channel.hpp"
#include "coord/node_ranks.hpp"
#include "coord/tls.hpp"
#include "redundancy/exchange.hpp"

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::coord {

class NodeSet : private redundancy::Exchange::Post
{
  public:
    NodeSet(Loop &loop, Report report);
    ~NodeSet() override;

    // The end of it is reported: *encoded*. `own` are the images that this node has in the
    // directory.
    void begin(const Message &message, const Directory &level,
               const std::vector<redundancy::SetFile> &own);
    void end();
    bool is_coding() const { return now_ && !now_->over; }

    // Of a member that connects, by the identity that it gives; none: it is no member.
    std::optional<Key> key_of(const std::string &identity) const;
    void attach(const std::shared_ptr<Channel> &channel, const std::string &identity);

  private:
    using Clock = std::chrono::steady_clock;
    struct Link { // to another member
        std::vector<std::string> addresses = {};
        uint16_t port = 0;
        Key key = {};
        std::shared_ptr<Channel> channel = {};
        bool is_up = false;
        int tries = 0;
        std::string trouble = {}; // why it could not be reached
        Clock::time_point heard = {};
    };
    struct Coding { // of the checkpoint under way
        Coding(uint64_t number, redundancy::Description description, Directory where)
            : checkpoint(number), set(std::move(description)), directory(std::move(where)),
              links(set.members.size())
        {}
        uint64_t checkpoint;
        redundancy::Description set;
        Directory directory;
        Trust trust;
        std::vector<Link> links; // by member; that of this node is not used
        bool over = false;       // it is reported
        uint64_t timer = 0;
        std::unique_ptr<redundancy::Exchange> exchange; // uses the others
    };

    Result<void> start(const Message &message, const Directory &level,
                       const std::vector<redundancy::SetFile> &own);
    Result<void> make_links(const nlohmann::json &members);
    void connect_from(uint32_t other);
    void connect(uint32_t other);
    void try_again(uint32_t other, const std::string &trouble);
    std::optional<uint32_t> member_of(const std::string &identity) const;
    void link_up(uint32_t other);
    void link_gone(uint32_t other, const Channel *channel);
    void frame(uint32_t other, FrameKind kind, std::string_view body);
    Result<void> take(uint32_t other, FrameKind kind, std::string_view body);
    void look(const Result<void> &done);
    void watch();
    std::string silent() const;
    void over(const Result<void> &done);

    void send_block(uint32_t to, image::Bytes block, uint64_t checksum) override;
    void send_leave(uint32_t to, uint32_t blocks) override;

    Loop &loop_;
    Report report_;
    uint64_t serial_ = 0; // of what timers are for
    std::unique_ptr<Coding> now_;
};

} // namespace cryo::coord
