// SPDX-License-Identifier: Apache-2.0
// Daemons of a set, in one loop, over 127.0.0.1: what they make, and what they do not take.
#include "coord/image_copy.hpp"
#include "coord/net.hpp"
#include "coord/node_set.hpp"
#include "redundancy/encode.hpp"
#include "store.hpp"

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace cryo::coord {

namespace {

using nlohmann::json;
using redundancy::SetFile;

constexpr int64_t patience_ms = 30000;

int pid_of(size_t node)
{
    return 400 + static_cast<int>(node);
}

class Set
{
  public:
    explicit Set(size_t nodes)
    {
        umask(0077);
        for (size_t i = 0; i < nodes; i++)
            add(i);
        for (size_t i = 0; i < nodes * nodes; i++)
            keys_.push_back(random_key());
    }
    ~Set()
    {
        for (const std::unique_ptr<Node> &node : nodes_)
            loop_.forget(node->tcp.socket.get());
    }
    Set(const Set &) = delete;
    Set &operator=(const Set &) = delete;

    struct Node {
        Node(Loop &loop, Report report) : set(loop, std::move(report)) {}
        Listening tcp;
        std::vector<SetFile> files;
        std::vector<std::shared_ptr<Channel>> strangers;
        NodeSet set;
    };
    Loop &loop() { return loop_; }
    Node &node(size_t i) { return *nodes_[i]; }
    std::filesystem::path at(size_t i) const { return store_.at("node" + std::to_string(i)); }
    std::filesystem::path image(size_t i) const { return at(i) / nodes_[i]->files[0].name; }
    Key key(size_t a, size_t b) const
    {
        return keys_[std::max(a, b) * nodes_.size() + std::min(a, b)];
    }

    // `lie`: by how much the message is wrong about the member's own image.
    void begin(size_t own, uint64_t lie = 0)
    {
        json members = json::array();
        for (size_t i = 0; i < nodes_.size(); i++) {
            const SetFile &file = nodes_[i]->files[0];
            members.push_back(
                {{"node", "n" + std::to_string(i)},
                 {"images", json::array({json{{"rank", i},
                                              {"pid", pid_of(i)},
                                              {"bytes", file.bytes + (i == own ? lie : 0)},
                                              {"checksum", file.checksum}}})},
                 {"addresses", nodes_[i]->tcp.addresses},
                 {"port", nodes_[i]->tcp.port}});
            if (i != own)
                members.back()["key"] = to_hex(key(i, own));
        }
        const Result<Directory> level = Directory::open(at(own));
        ASSERT_TRUE(level);
        nodes_[own]->set.begin(Message(Type::encode, {{"checkpoint", 1},
                                                      {"id", "0a"},
                                                      {"redundancy", "xor"},
                                                      {"member", own},
                                                      {"members", members}}),
                               *level, nodes_[own]->files);
    }
    // Until so many have said *encoded*; what each has said.
    std::map<size_t, json> run(size_t answers)
    {
        answers_ = answers;
        const uint64_t limit = loop_.after(patience_ms, [this] { loop_.stop(); });
        loop_.resume();
        if (said_.size() < answers)
            loop_.run();
        loop_.call_off(limit);
        EXPECT_EQ(said_.size(), answers);
        return said_;
    }

  private:
    void add(size_t i)
    {
        auto node = std::make_unique<Node>(loop_, [this, i](const Message &message) {
            said_[i] = message.fields;
            if (said_.size() == answers_)
                loop_.stop();
        });
        Result<Listening> tcp = keep_port("127.0.0.1");
        ASSERT_TRUE(tcp);
        node->tcp = std::move(*tcp);
        ASSERT_TRUE(node->tcp.listen());
        loop_.watch(node->tcp.socket.get(), POLLIN, [this, i](short) { accept(*nodes_[i]); });
        const std::string name = file_in_level(static_cast<uint32_t>(i), pid_of(i));
        store_.write("node" + std::to_string(i) + "/" + name,
                     std::string(200'000 + 70'000 * i, static_cast<char>('a' + i)));
        const Result<Directory> rank =
            Directory::open(at(i) / rank_directory(static_cast<uint32_t>(i)));
        ASSERT_TRUE(rank);
        const Result<ImageCopy> measured = measure_image(*rank, image_name(pid_of(i)));
        ASSERT_TRUE(measured);
        node->files = {{.name = name, .bytes = measured->bytes, .checksum = measured->checksum}};
        nodes_.push_back(std::move(node));
    }
    void accept(Node &node)
    {
        Fd fd(accept4(node.tcp.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
        ASSERT_TRUE(fd);
        const auto channel = Channel::make(loop_, std::move(fd),
                                           std::make_unique<Tls>([&node](const std::string &who) {
                                               return node.set.key_of(who);
                                           }));
        channel->on_secure = [&node, at = channel.get()] {
            node.set.attach(at->shared_from_this(), at->tls()->peer());
        };
        node.strangers.push_back(channel);
    }

    Store store_;
    Loop loop_;
    std::vector<Key> keys_;
    size_t answers_ = 0;
    std::map<size_t, json> said_;
    std::vector<std::unique_ptr<Node>> nodes_;
};

// A member that has the key, and sends what it likes when it is connected.
std::map<size_t, json> with_false_member(Set &set, FrameKind kind, const std::string &body)
{
    const Fd listener(set.node(0).tcp.socket.release());
    std::shared_ptr<Channel> channel;
    set.loop().forget(listener.get());
    set.loop().watch(listener.get(), POLLIN, [&](short) {
        channel = Channel::make(set.loop(), Fd(accept4(listener.get(), nullptr, nullptr, 0)),
                                std::make_unique<Tls>([&](const std::string &) {
                                    return std::optional(set.key(0, 1));
                                }));
        channel->on_secure = [&] { channel->send(kind, body); };
    });
    set.begin(1);
    std::map<size_t, json> said = set.run(1);
    set.loop().forget(listener.get());
    return said;
}

} // namespace

TEST(NodeSets, MakeWhatBringsALostNodeBack)
{
    Set set(3);
    for (const size_t i : {2U, 0U, 1U})
        set.begin(i);
    for (const auto &[node, said] : set.run(3)) {
        EXPECT_FALSE(said.contains("error")) << node << ": " << said;
        EXPECT_EQ(said.value("bytes", uint64_t(0)),
                  std::filesystem::file_size(set.at(node) / "parity"));
    }
    std::ifstream in(set.image(1));
    const std::string before((std::istreambuf_iterator<char>(in)), {});
    std::filesystem::remove_all(set.at(1));
    std::filesystem::create_directory(set.at(1));
    const Result<Directory> first = Directory::open(set.at(0));
    const Result<Directory> last = Directory::open(set.at(2));
    const Result<Directory> fresh = Directory::open(set.at(1));
    ASSERT_TRUE(first && last && fresh);
    const std::map<uint32_t, const Directory *> to = {{1, &*fresh}};
    const Result<redundancy::Rebuilt> rebuilt = redundancy::rebuild({&*first, &*last}, to, Trust());
    ASSERT_TRUE(rebuilt) << rebuilt.error().text();
    std::ifstream back(set.image(1));
    EXPECT_EQ(std::string((std::istreambuf_iterator<char>(back)), {}), before);
}

TEST(NodeSets, DoNotBelieveWhatTheirOwnImagesAre)
{
    Set set(2);
    set.begin(1, 1);
    const auto said = set.run(1);
    ASSERT_TRUE(said.contains(1));
    EXPECT_EQ(said.at(1).value("code", 0), EBADMSG) << said.at(1);
    EXPECT_FALSE(std::filesystem::exists(set.at(1) / "parity"));
}

TEST(NodeSets, TakeNothingButBlocks)
{
    for (const auto &[kind, body, code] :
         {std::tuple(FrameKind::block, std::string("short"), EPROTO),
          std::tuple(FrameKind::leave, std::string("\x05\0\0\0", 4), EPROTO),
          std::tuple(FrameKind::json, std::string("{}"), EPROTO),
          std::tuple(FrameKind::block, std::string(8 + redundancy::default_block, 'x'), EBADMSG),
          std::tuple(FrameKind::block, std::string(9 + redundancy::default_block, 'x'),
                     ECONNRESET)}) {
        Set set(2);
        const auto said = with_false_member(set, kind, body);
        ASSERT_TRUE(said.contains(1));
        EXPECT_EQ(said.at(1).value("code", 0), code) << said.at(1);
        EXPECT_NE(said.at(1).value("error", "").find("n0"), std::string::npos) << said.at(1);
        EXPECT_FALSE(std::filesystem::exists(set.at(1) / "parity"));
    }
}

} // namespace cryo::coord
