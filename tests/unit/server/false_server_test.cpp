// SPDX-License-Identifier: Apache-2.0
// Servers that have the key, and do not keep to what servers do: a client neither waits for ever,
// nor believes what cannot be.
#include "serving.hpp"

#include "coord/message.hpp"

#include <cerrno>
#include <fmt/format.h>
#include <functional>
#include <sys/socket.h>

namespace cryo::server {

namespace {

using coord::Channel;
using coord::FrameKind;
using coord::Message;
using coord::Speaker;
using coord::Type;
using nlohmann::json;

// Answers as a test says.
class FalseServer
{
  public:
    // Once for each message, and again every few milliseconds with none.
    using Answer = std::function<void(Channel &, const Message *)>;

    explicit FalseServer(Answer answer)
        : answer_(std::move(answer)), over_(eventfd(0, EFD_CLOEXEC)), listening_(kept_port())
    {
        if (!listening_.listen())
            throw std::runtime_error("cannot listen");
        loop_.watch(over_.get(), POLLIN, [this](short) { loop_.stop(); });
        loop_.watch(listening_.socket.get(), POLLIN, [this](short) { accept(); });
        thread_ = std::thread([this] { loop_.run(); });
    }
    ~FalseServer()
    {
        eventfd_write(over_.get(), 1);
        thread_.join();
    }
    HostAndPort address() const { return {.host = "127.0.0.1", .port = listening_.port}; }

  private:
    static coord::Listening kept_port()
    {
        Result<coord::Listening> kept = coord::keep_port("127.0.0.1");
        if (!kept)
            throw std::runtime_error(kept.error().text());
        return std::move(*kept);
    }
    void accept()
    {
        Fd socket(accept4(listening_.socket.get(), nullptr, nullptr, SOCK_CLOEXEC));
        channel_ = Channel::make(
            loop_, std::move(socket), std::make_unique<coord::Tls>([](const std::string &name) {
                return std::optional(coord::derived_key(std::string(64, 'a'), name));
            }));
        channel_->on_frame = [this](FrameKind kind, std::string_view body) {
            if (kind != FrameKind::json)
                return;
            const Result<Message> message = coord::unpack(Speaker::sender, body);
            ASSERT_TRUE(message);
            answer_(*channel_, &*message);
            again();
        };
    }
    void again()
    {
        loop_.call_off(timer_);
        timer_ = loop_.after(5, [this] {
            answer_(*channel_, nullptr);
            again();
        });
    }

    Answer answer_;
    Fd over_;
    coord::Listening listening_;
    coord::Loop loop_;
    std::shared_ptr<Channel> channel_;
    uint64_t timer_ = 0;
    std::thread thread_;
};

json stored(const std::string &series, const std::string &name)
{
    json fields = {{"name", name},
                   {"bytes", 0},
                   {"checksum", Serving::checksum_of("")},
                   {"number", 1},
                   {"when_ns", 1}};
    if (!series.empty())
        fields["series"] = series;
    return fields;
}

Message listing(json images, bool more)
{
    json fields = {{"images", std::move(images)}, {"more", more}, {"used", 0}, {"quota", 0}};
    return Message(Type::listing, std::move(fields));
}

Client client_of(const FalseServer &server)
{
    Result<Client> client = Client::connect(server.address(), std::string(64, 'a'), "store/n1");
    if (!client)
        throw std::runtime_error(client.error().text());
    return std::move(*client);
}

} // namespace

TEST(FalseServerTest, OneThatWorksForEverIsLeft)
{
    const FalseServer server([](Channel &channel, const Message *) {
        for (int i = 0; i < 1000; i++)
            channel.send(Message(Type::working));
    });
    Client client = client_of(server);
    const Result<StoredImage> found = client.find({"", "a"});
    ASSERT_FALSE(found);
    EXPECT_NE(std::string::npos, found.error().text().find("comes to no end"));
}

TEST(FalseServerTest, AListEnds)
{
    uint64_t next = 0;
    const FalseServer server([&](Channel &channel, const Message *message) {
        json images = json::array();
        for (uint32_t i = 0; message != nullptr && i < coord::most_listed; i++)
            images.push_back(stored("", fmt::format("a{:012}", next++)));
        if (message != nullptr)
            channel.send(listing(std::move(images), true));
    });
    Client client = client_of(server);
    const Result<Listing> all = client.list("");
    ASSERT_FALSE(all);
    EXPECT_EQ(EPROTO, all.error().code());
    EXPECT_GT(2 * most_images, next);
}

TEST(FalseServerTest, NoNameIsBelievedThatCanBeNone)
{
    for (const auto &named : {std::pair("", "\033[2J"), std::pair("", ".lock"),
                              std::pair("..x\n", "a"), std::pair("s", "a b")}) {
        const FalseServer server([&](Channel &channel, const Message *message) {
            if (message == nullptr)
                return;
            if (message->type == Type::list)
                channel.send(listing(json::array({stored(named.first, named.second)}), false));
            else
                channel.send(Message(Type::kept, stored(named.first, named.second)));
        });
        Client client = client_of(server);
        const Result<Listing> all = client.list("");
        ASSERT_FALSE(all);
        EXPECT_EQ(EPROTO, all.error().code());
        const Result<StoredImage> found = client.find({"", "a"});
        ASSERT_FALSE(found);
        EXPECT_EQ(EPROTO, found.error().code());
    }
}

TEST(FalseServerTest, AnImageOfAnotherNameIsNotTheOneThatWasWanted)
{
    const FalseServer server([](Channel &channel, const Message *message) {
        if (message != nullptr)
            channel.send(Message(Type::kept, stored("", "b")));
    });
    Client client = client_of(server);
    const Fd fd(memfd_create("image", MFD_CLOEXEC));
    const Result<StoredImage> got = client.get({"", "a"}, fd.get(), {});
    ASSERT_FALSE(got);
    EXPECT_EQ(EPROTO, got.error().code());
}

// A byte at a time would take for ever.
TEST(FalseServerTest, WhatIsSentIsTakenByPieces)
{
    uint64_t taken = 0;
    const FalseServer server([&](Channel &channel, const Message *message) {
        channel.send(message != nullptr ? Message(Type::ready)
                                        : Message(Type::took, {{"bytes", ++taken}}));
    });
    Client client = client_of(server);
    const Fd fd(memfd_create("image", MFD_CLOEXEC));
    ASSERT_EQ(0, ftruncate(fd.get(), 1 << 20));
    const Result<StoredImage> kept = client.put({"", "a"}, fd.get(), {});
    ASSERT_FALSE(kept);
    EXPECT_EQ(EPROTO, kept.error().code());
    EXPECT_GT(100U, taken);
}

} // namespace cryo::server
