// SPDX-License-Identifier: Apache-2.0
//
// In a large job a daemon's words of images go to the daemon above it in the tree. When that one is
// above it no more they may never come to the first daemon, and are said straight to it. Here is
// the daemon of one node with two ranks; everything around it is the test.
#include "../scratch.hpp"
#include "bookmark/wire.hpp"
#include "coord/daemon.hpp"
#include "coord/snapshot_removal.hpp"
#include "in_process.hpp"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <utility>

namespace cryo::coord::sim {
namespace {

using bookmark::MessageType;
using nlohmann::json;

// Is there when the test says so.
class AskedImage final : public Imager
{
  public:
    AskedImage(Loop &loop, std::map<uint32_t, Events> &of) : Imager(loop), of_(of) {}
    Result<void> start(pid_t /*pid*/, const ImagePlace &place, const ImageOptions & /*options*/,
                       Events events) override
    {
        of_[place.rank] = std::move(events);
        return {};
    }
    bool is_stopped_for(std::chrono::milliseconds /*time*/) override { return false; }

  private:
    std::map<uint32_t, Events> &of_;
};

class Parted : public testing::Test
{
  public:
    // What is joined waits for a twentieth of it.
    static void SetUpTestSuite() { setenv("CRYO_DEADLINE", "3600", 1); }
    static void TearDownTestSuite() { unsetenv("CRYO_DEADLINE"); }

  protected:
    Parted()
    {
        std::ofstream(scratch_ / token_name) << "seen";
        for (const uint32_t number : {4U, 5U})
            add_rank(number);
        settle();
        place(1);
        stop_at_cut(1);
    }

    void settle()
    {
        do {
            loop_.after(0, [this] { loop_.stop(); });
            loop_.resume();
            loop_.run();
        } while (!post_.is_idle());
    }
    void place(uint64_t generation)
    {
        daemon_.command(Message(Type::place, {{"generation", generation},
                                              {"index", 3},
                                              {"daemons", json::array()},
                                              {"ranks", {4, 5}},
                                              {"runs", {{4, 4, 0}, {5, 5, 1}}},
                                              {"nodes", 1},
                                              {"parent",
                                               {{"addresses", json::array({"above"})},
                                                {"port", 1},
                                                {"key", to_hex(random_key())}}}}));
        settle();
    }
    // Until both ranks have asked for their images.
    void stop_at_cut(uint32_t checkpoint)
    {
        daemon_.command(Message(Type::prepare, {{"checkpoint", checkpoint},
                                                {"directory", scratch_.path().string()},
                                                {"token", "seen"},
                                                {"options", to_json(ImageOptions())},
                                                {"hold", false}}));
        say(*above_, MessageType::request, checkpoint);
        for (const auto &rank : ranks_) {
            say(*rank, MessageType::clocks, checkpoint);
            say(*rank, MessageType::ready, checkpoint);
        }
        say(*above_, MessageType::expected, checkpoint);
        for (const auto &rank : ranks_)
            rank->send(FrameKind::image, "");
        settle();
        ASSERT_EQ(images_.size(), 2U);
    }
    void end_image(uint32_t rank)
    {
        const Imager::Events events = images_.extract(rank).mapped();
        Taken taken;
        taken.bytes = 10 * rank;
        events.cut();
        events.end(taken);
        settle();
    }

    Scratch scratch_;
    Loop loop_;
    InProcess post_{loop_};
    std::map<uint32_t, Imager::Events> images_; // under way
    json straight_ = json::array();             // what the first daemon has heard of them
    json along_ = json::array(); // the tree: what the daemon above has heard of images
    std::shared_ptr<Channel> above_;
    std::vector<std::shared_ptr<Channel>> ranks_;
    Daemon daemon_{loop_,
                   Job(),
                   "n3",
                   [this](const Message &message) { straight(message); },
                   {.to_parent = [this](Loop &, const ParentAt &) { return connect(); },
                    .imager = [this](Loop &loop) -> std::unique_ptr<Imager> {
                        return std::make_unique<AskedImage>(loop, images_);
                    }}};

  private:
    void straight(const Message &message)
    {
        if (message.type == Type::cut || message.type == Type::image)
            straight_.push_back({message.type == Type::cut ? "cut" : "image",
                                 message.fields.at("checkpoint"), message.fields.at("rank")});
    }
    Result<std::shared_ptr<Channel>> connect()
    {
        auto [here, there] = post_.connect();
        above_ = there;
        above_->on_frame = [this](FrameKind kind, std::string_view body) {
            if (kind != FrameKind::json)
                return;
            const Result<Message> message = unpack(Speaker::member, body);
            ASSERT_TRUE(message) << message.error().text();
            if (message->fields.contains("images"))
                along_.push_back({message->fields.at("checkpoint"), message->fields.at("images")});
        };
        loop_.after(0, [one = here] { one->on_secure(); });
        return here;
    }
    void add_rank(uint32_t number)
    {
        auto [here, there] = post_.connect();
        daemon_.meet_rank(there);
        Hello hello;
        hello.rank = number;
        hello.ranks = 6;
        std::string text(reinterpret_cast<const char *>(&hello), sizeof(hello));
        here->send(FrameKind::hello, text.append("job"));
        ranks_.push_back(here);
    }
    void say(Channel &channel, MessageType type, uint32_t epoch)
    {
        const auto bytes = pack(bookmark::Message(type, epoch), std::pmr::get_default_resource());
        channel.send(FrameKind::bookmark,
                     {reinterpret_cast<const char *>(bytes.data()), bytes.size()});
        settle();
    }
};

json words_of(uint64_t checkpoint, uint32_t rank)
{
    return json::array(
        {json::array({"cut", checkpoint, rank}), json::array({"image", checkpoint, rank})});
}

json both_along(uint64_t checkpoint)
{
    return json::array({json::array({checkpoint, json::array({4, 5})})});
}

TEST_F(Parted, NothingIsSaidTwiceWhileTheTreeStands)
{
    end_image(4);
    end_image(5);
    EXPECT_EQ(along_, both_along(1));
    EXPECT_EQ(straight_, json::array());
}

TEST_F(Parted, WhatWentUpIsSaidStraightWhenTheDaemonAboveIsGone)
{
    end_image(4);
    EXPECT_EQ(straight_, json::array());
    above_->close();
    settle();
    EXPECT_EQ(straight_, words_of(1, 4));
    straight_.clear();
    end_image(5);
    EXPECT_EQ(straight_, words_of(1, 5)); // and the first one no second time
    EXPECT_EQ(along_, json::array());
}

// The next mpirun of a script has ranks.
TEST_F(Parted, WhatWentUpIsSaidStraightWhenTheTreeIsAnotherOne)
{
    end_image(4);
    place(2);
    EXPECT_EQ(straight_, words_of(1, 4));
    straight_.clear();
    // The new tree is not that of this checkpoint.
    end_image(5);
    EXPECT_EQ(straight_, words_of(1, 5));
    EXPECT_EQ(along_, json::array());
}

TEST_F(Parted, TheNextCheckpointGoesAlongTheNewTree)
{
    place(2);
    end_image(4);
    end_image(5);
    daemon_.command(Message(Type::finish, {{"checkpoint", 1}, {"after", "none"}}));
    settle();
    straight_.clear();
    stop_at_cut(2);
    end_image(4);
    end_image(5);
    EXPECT_EQ(along_, both_along(2));
    EXPECT_EQ(straight_, json::array());
}

TEST_F(Parted, WhatIsOverIsNotSaidAgain)
{
    end_image(4);
    end_image(5);
    daemon_.command(Message(Type::finish, {{"checkpoint", 1}, {"after", "none"}}));
    above_->close();
    settle();
    EXPECT_EQ(straight_, json::array());
}

TEST_F(Parted, WhatIsCalledOffIsNotSaidAgain)
{
    end_image(4);
    daemon_.command(Message(Type::cancel, {{"checkpoint", 1}}));
    above_->close();
    settle();
    EXPECT_EQ(straight_, json::array());
}

} // namespace
} // namespace cryo::coord::sim
