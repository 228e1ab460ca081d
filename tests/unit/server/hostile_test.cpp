// SPDX-License-Identifier: Apache-2.0
// Clients that have the key, and do not keep to what clients do: nothing of theirs becomes an
// image, and others are served.
#include "serving.hpp"

#include "coord/message.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <random>
#include <sys/socket.h>

namespace cryo::server {

namespace {

using coord::FrameKind;
using coord::Message;
using coord::Speaker;
using coord::Type;
using nlohmann::json;

// Says anything.
class Raw
{
  public:
    explicit Raw(const HostAndPort &at)
    {
        Result<Fd> socket = coord::connect_tcp({at.host}, at.port);
        if (!socket)
            throw std::runtime_error(socket.error().text());
        // The kernel would keep up to 32 MB for one that does not read.
        const int room = 65536;
        setsockopt(socket->get(), SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
        channel_ = coord::Channel::make(
            loop_, std::move(*socket),
            std::make_unique<coord::Tls>("store/raw",
                                         coord::derived_key(std::string(64, 'a'), "store/raw")));
        channel_->on_secure = [this] { loop_.stop(); };
        channel_->on_end = [this] {
            ended_ = true;
            loop_.stop();
        };
        loop_.run();
        channel_->on_frame = [this](FrameKind kind, std::string_view body) {
            said_ = kind == FrameKind::piece ? std::string("piece") : std::string(body);
            if (said_.find("\"working\"") == std::string::npos)
                loop_.stop();
        };
    }
    void say(FrameKind kind, std::string_view body) { channel_->send(kind, body); }
    void say(const json &fields) { say(FrameKind::json, fields.dump()); }
    // The type of the next answer, "failed CODE", or "ended".
    std::string hear()
    {
        loop_.resume();
        said_.clear();
        if (!ended_)
            loop_.run();
        if (ended_)
            return "ended";
        const Result<Message> message = coord::unpack(Speaker::server, said_);
        if (!message)
            return said_;
        const std::string type = json::parse(said_).at("type");
        return message->type == Type::failed
                   ? type + " " + std::to_string(message->fields.at("code").get<int>())
                   : type;
    }
    // By the server; nothing is read for that.
    bool is_closed() const
    {
        pollfd look = {channel_->descriptor(), POLLRDHUP, 0};
        return poll(&look, 1, 0) > 0;
    }
    std::string answer(const json &fields)
    {
        say(fields);
        return hear();
    }

  private:
    coord::Loop loop_;
    std::shared_ptr<coord::Channel> channel_;
    std::string said_;
    bool ended_ = false;
};

class HostileTest : public Serving
{
  protected:
    // Nothing has become of it, and others are served.
    void expect_unharmed()
    {
        Client client = connect();
        EXPECT_EQ(0, put(client, {"", "good"}, "one", Existing::replace));
        EXPECT_EQ("one", get(client, {"", "good"}));
        const Result<Listing> all = client.list("");
        ASSERT_TRUE(all);
        EXPECT_EQ(1U, all->images.size());
        EXPECT_EQ(3U, all->used);
    }
};

json put_of(const std::string &name, uint64_t bytes)
{
    return {{"type", "put"}, {"name", name}, {"bytes", bytes}, {"replace", true}};
}

const json all_of_them = {{"type", "list"}};

} // namespace

TEST_F(HostileTest, NoNameLeadsOutOfTheDirectory)
{
    serve();
    for (const char *name : {"../x", "..", ".", "a/b", "/etc/x", ""})
        EXPECT_EQ("ended", Raw(address()).answer(put_of(name, 1))) << name;
    json in_series = put_of("x", 1);
    in_series["series"] = "../..";
    EXPECT_EQ("ended", Raw(address()).answer(in_series));
    Raw raw(address());
    const std::string invalid = "failed " + std::to_string(EINVAL);
    for (const char *name : {".x", ".lock", ".incoming.1", "a,b", "a~1", "a\nb", "-x"}) {
        EXPECT_EQ(invalid, raw.answer(put_of(name, 1))) << name;
        EXPECT_EQ(invalid, raw.answer({{"type", "find"}, {"name", name}})) << name;
        EXPECT_EQ(invalid, raw.answer({{"type", "remove"}, {"name", name}, {"checksum", "x"}}))
            << name;
    }
    EXPECT_TRUE(files().empty());
    expect_unharmed();
}

TEST_F(HostileTest, NoLengthIsBelieved)
{
    serve({.quota = 1000});
    Raw raw(address());
    EXPECT_EQ("failed " + std::to_string(EDQUOT), raw.answer(put_of("a", uint64_t(1) << 60)));
    ASSERT_EQ("ready", raw.answer(put_of("a", 3)));
    raw.say(FrameKind::piece, "four");
    EXPECT_EQ("failed " + std::to_string(EFBIG), raw.hear());
    raw.say(FrameKind::piece, "more"); // it may not have heard of that yet
    EXPECT_EQ("listing", raw.answer(all_of_them));
    EXPECT_EQ("ended", Raw(address()).answer(put_of("a", (uint64_t(1) << 60) + 1)));
    EXPECT_EQ("ended",
              Raw(address()).answer({{"type", "read"}, {"offset", 0}, {"length", 1 << 20}}));
    Raw large(address());
    large.say(FrameKind::piece, std::string(coord::most_piece + 1, 'x'));
    EXPECT_EQ("ended", large.hear());
    expect_unharmed();
}

TEST_F(HostileTest, WhatCameIsComparedWithWhatWasSent)
{
    serve();
    Raw raw(address());
    ASSERT_EQ("ready", raw.answer(put_of("a", 3)));
    raw.say(FrameKind::piece, "one");
    EXPECT_EQ("took", raw.hear());
    EXPECT_EQ("failed " + std::to_string(EBADMSG),
              raw.answer({{"type", "complete"}, {"checksum", checksum_of("two")}}));
    ASSERT_EQ("ready", raw.answer(put_of("a", 3)));
    EXPECT_EQ("failed " + std::to_string(EBADMSG),
              raw.answer({{"type", "complete"}, {"checksum", checksum_of("")}}));
    EXPECT_TRUE(files().empty());
    expect_unharmed();
}

TEST_F(HostileTest, OneThatGoesMidwayLeavesNothing)
{
    serve();
    {
        Raw raw(address());
        ASSERT_EQ("ready", raw.answer(put_of("a", 10)));
        raw.say(FrameKind::piece, "half");
        EXPECT_EQ("took", raw.hear());
        EXPECT_EQ(1U, files().size());
        Client other = connect();
        EXPECT_EQ(EBUSY, put(other, {"", "a"}, "x"));
    }
    Client client = connect();
    // The server hears of the end before, or after, this client: until then the name is taken.
    while (put(client, {"", "a"}, "x") == EBUSY)
        std::this_thread::yield();
    ASSERT_TRUE(client.remove({"", "a"}, checksum_of("x")));
    EXPECT_TRUE(files().empty());
    expect_unharmed();
}

TEST_F(HostileTest, NothingComesBeforeItsTime)
{
    serve();
    const auto piece = [this](const json &before) {
        Raw raw(address());
        if (!before.is_null()) {
            EXPECT_NE("ended", raw.answer(before));
        }
        raw.say(FrameKind::piece, "x");
        return raw.hear();
    };
    EXPECT_EQ("ended", piece(nullptr));
    EXPECT_EQ("ended", piece(all_of_them));
    EXPECT_EQ("ended", Raw(address()).answer({{"type", "complete"}, {"checksum", "x"}}));
    for (const json &next : {put_of("b", 1), all_of_them, json{{"type", "find"}, {"name", "a"}},
                             json{{"type", "read"}, {"offset", 0}, {"length", 0}}}) {
        Raw raw(address());
        ASSERT_EQ("ready", raw.answer(put_of("a", 3)));
        EXPECT_EQ("ended", raw.answer(next)) << next;
    }
    EXPECT_EQ("ended", Raw(address()).answer({{"type", "took"}, {"bytes", 1}}));
    EXPECT_EQ("ended", Raw(address()).answer({{"type", "checkpoint"}, {"directory", "/"}}));
    Raw empty(address());
    ASSERT_EQ("ready", empty.answer(put_of("a", 3)));
    empty.say(FrameKind::piece, "");
    EXPECT_EQ("ended", empty.hear());
    Raw kind(address());
    kind.say(FrameKind::bookmark, "{}");
    EXPECT_EQ("ended", kind.hear());
    expect_unharmed();
}

TEST_F(HostileTest, OneThatIsSilentIsGivenUp)
{
    serve({.patience_s = 1});
    Raw raw(address());
    ASSERT_EQ("ready", raw.answer(put_of("a", 10)));
    raw.say(FrameKind::piece, "half");
    EXPECT_EQ("took", raw.hear());
    EXPECT_EQ("ended", raw.hear());
    EXPECT_TRUE(files().empty());
    expect_unharmed();
}

TEST_F(HostileTest, OneThatReadsNothingDoesNotFillTheServer)
{
    serve();
    Client client = connect();
    ASSERT_EQ(0, put(client, {"", "good"}, long_text()));
    Raw raw(address());
    ASSERT_EQ("kept", raw.answer({{"type", "find"}, {"name", "good"}}));
    while (!raw.is_closed())
        raw.say({{"type", "read"}, {"offset", 0}, {"length", coord::most_piece}});
    EXPECT_EQ(0, put(client, {"", "good"}, "one", Existing::replace));
    expect_unharmed();
}

// Of other answers than images, too.
TEST_F(HostileTest, OneThatReadsNoAnswersIsLeft)
{
    constexpr int many = 1000; // of 30 KB each
    const std::string directory = dir_ / "images";
    ASSERT_EQ(0, mkdir(directory.c_str(), 0700));
    for (uint32_t i = 0; i < coord::most_listed; i++) {
        const StoredImage image = {
            .image = {"", fmt::format("a{}", i)}, .number = i + 1, .checksum = checksum_of("")};
        const Fd file(open((directory + "/" + image.file()).c_str(), O_WRONLY | O_CREAT, 0400));
        ASSERT_TRUE(file);
    }
    serve({.most_clients = 1});
    Raw lists(address());
    for (int i = 0; i < many && !lists.is_closed(); i++)
        lists.say(all_of_them);
    lists.say({{"type", "find"}, {"name", "none"}});
    // Another one is served as soon as the server has left the first.
    Result<Listing> all = Error(EBUSY, "");
    while (!all) {
        Result<Client> client = try_to_connect(secret());
        if (client)
            all = client->list("");
    }
    std::string last = "listing";
    while (last == "listing")
        last = lists.hear();
    EXPECT_EQ("ended", last);
    EXPECT_EQ(coord::most_listed, all->images.size());
}

// Whatever is said in whatever order: only a put that went as it has to makes an image.
TEST_F(HostileTest, AnyOrderOfMessages)
{
    serve({.quota = 1000});
    std::minstd_rand random(20261130);
    const std::vector<json> messages = {
        put_of("a", 3),
        put_of("b", 0),
        {{"type", "complete"}, {"checksum", checksum_of("one")}},
        {{"type", "complete"}, {"checksum", checksum_of("")}},
        {{"type", "complete"}, {"checksum", "x"}},
        all_of_them,
        {{"type", "find"}, {"name", "a"}},
        {{"type", "read"}, {"offset", 0}, {"length", 3}},
        {{"type", "remove"}, {"name", "a"}, {"checksum", checksum_of("one")}},
        {{"type", "remove"}, {"name", "b"}, {"checksum", checksum_of("")}},
        {{"type", "nothing"}}};
    for (int round = 0; round < 60; round++) {
        Raw raw(address());
        for (int i = 0; i < 12; i++) {
            const size_t which = random() % (messages.size() + 2);
            if (which < messages.size())
                raw.say(messages[which]);
            else
                raw.say(FrameKind::piece, which == messages.size() ? "one" : "o");
        }
        raw.say({{"type", "end"}}); // is none: so there is an answer, or an end
        while (raw.hear() != "ended") {
        }
        end(); // when what is on its way to the disk is there
        serve({.quota = 1000});
        Client client = connect();
        const Result<Listing> all = client.list("");
        ASSERT_TRUE(all);
        for (const StoredImage &one : all->images) {
            EXPECT_EQ(one.image.name == "a" ? "one" : "", get(client, one.image));
            ASSERT_TRUE(client.remove(one.image, one.checksum));
        }
    }
    EXPECT_TRUE(files().empty());
    expect_unharmed();
}

} // namespace cryo::server
