// SPDX-License-Identifier: Apache-2.0
//
// Feeds arbitrary bytes to a daemon's connection: before the peer has proven that it has a key, and
// afterwards as each kind of speaker. A message that the decoder accepts must be accepted again
// when it is packed.
//
// The first byte chooses the speaker, the rest is its input.
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
#include <unistd.h>

#include "bookmark/node.hpp"
#include "coord/channel.hpp"

using namespace cryo;
using namespace cryo::coord;

namespace {

constexpr uint8_t speakers = 7;

class Nobody final : public bookmark::Node::Output
{
  public:
    void to_child(uint32_t, bookmark::Bytes) override {}
    void to_parent(bookmark::Bytes) override {}
    void state(const bookmark::StateEntry &) override {}
    void wanted() override {}
};

std::shared_ptr<Channel> connect(Loop &loop, Fd &other, std::unique_ptr<Tls> tls)
{
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) != 0) {
        perror("socketpair");
        exit(1);
    }
    other = Fd(ends[1]);
    return Channel::make(loop, Fd(ends[0]), std::move(tls));
}

void hear(Channel &channel, Loop &loop, const Fd &other, std::string_view said)
{
    // Input beyond the socket's buffer is not tested.
    if (::send(other.get(), said.data(), said.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 &&
        !said.empty())
        return;
    shutdown(other.get(), SHUT_WR);
    channel.on_end = [&loop] { loop.stop(); };
    loop.run();
}

// A peer without a key must never be accepted as having one.
void before_proof(std::string_view said)
{
    Loop loop;
    Fd other;
    const auto channel = connect(loop, other, std::make_unique<Tls>([](const std::string &name) {
                                     return name == "join/a" ? std::optional(Key{1}) : std::nullopt;
                                 }));
    channel->on_secure = [] { abort(); };
    channel->on_frame = [](FrameKind, std::string_view) { abort(); };
    hear(*channel, loop, other, said);
}

void after_proof(Speaker speaker, std::string_view said)
{
    Loop loop;
    Fd other;
    const auto channel = connect(loop, other, nullptr);
    channel->on_message(speaker, [speaker](const Message &message) {
        if (const Result<Message> again = unpack(speaker, message.pack());
            !again || again->type != message.type || again->fields != message.fields)
            abort();
    });
    hear(*channel, loop, other, said);
}

// Every message of the bookmark exchange is preceded by its length in two bytes.
void in_the_tree(bool root, std::string_view said)
{
    static Nobody nobody;
    bookmark::Routes routes;
    routes.children = 3;
    routes.is_rank = {false, true, true};
    routes.runs = {{0, 1, 0}, {2, 2, 1}, {3, 3, 2}};
    bookmark::Node node({.routes = routes, .root = root}, nobody);
    if (root)
        (void)node.request();
    for (uint32_t turn = 0; said.size() >= 2; turn++) {
        const size_t length = std::min<size_t>(static_cast<unsigned char>(said[0]) +
                                                   256U * static_cast<unsigned char>(said[1]),
                                               said.size() - 2);
        const auto *bytes = reinterpret_cast<const uint8_t *>(said.data() + 2);
        if (!root && turn % 4 == 0)
            (void)node.from_parent({bytes, length});
        else
            (void)node.from_child(turn % 3, {bytes, length});
        said.remove_prefix(2 + length);
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    const std::string_view said(reinterpret_cast<const char *>(data) + 1, size - 1);
    const uint8_t choice = data[0] % (speakers + 3);
    if (choice < speakers)
        after_proof(static_cast<Speaker>(choice), said);
    else if (choice == speakers)
        before_proof(said);
    else
        in_the_tree(choice == speakers + 1, said);
    return 0;
}
