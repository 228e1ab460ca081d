// SPDX-License-Identifier: Apache-2.0
//
// Parity made by members who see their own directories only, over a network that delivers as it
// likes, and with members who send what they may not.
#include "redundancy/exchange.hpp"

#include "nodes.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <memory>
#include <sys/resource.h>

namespace cryo::redundancy {

namespace {

struct Letter {
    std::vector<uint8_t> block;
    uint64_t checksum = 0;
    uint32_t leave = 0;
};

Result<void> deliver_to(Exchange &to, uint32_t from, const Letter &letter)
{
    return letter.block.empty() ? to.take_leave(from, letter.leave)
                                : to.take_block(from, letter.block, letter.checksum);
}

// What is on its way, in order from each member to each other one.
class Network
{
  public:
    using Way = std::pair<uint32_t, uint32_t>;

    void put(Way way, Letter letter)
    {
        ways_[way].push_back(std::move(letter));
        most_blocks_ = std::max(most_blocks_, blocks_on(way));
    }
    // Some way that has a letter; none: all are empty.
    std::optional<Way> choose(std::mt19937 &random) const
    {
        std::vector<Way> full;
        for (const auto &[way, letters] : ways_) {
            if (!letters.empty())
                full.push_back(way);
        }
        if (full.empty())
            return std::nullopt;
        return full[random() % full.size()];
    }
    bool has(Way way) const { return ways_.contains(way) && !ways_.at(way).empty(); }
    Letter take(Way way)
    {
        Letter letter = std::move(ways_[way].front());
        ways_[way].pop_front();
        return letter;
    }
    size_t most_blocks() const { return most_blocks_; }

  private:
    size_t blocks_on(Way way) const
    {
        return static_cast<size_t>(std::ranges::count_if(
            ways_.at(way), [](const Letter &letter) { return !letter.block.empty(); }));
    }

    std::map<Way, std::deque<Letter>> ways_;
    size_t most_blocks_ = 0;
};

class Sender final : public Exchange::Post
{
  public:
    Sender(Network &network, uint32_t from) : network_(network), from_(from) {}
    void send_block(uint32_t to, image::Bytes block, uint64_t checksum) override
    {
        network_.put({from_, to}, {.block = {block.begin(), block.end()}, .checksum = checksum});
    }
    void send_leave(uint32_t to, uint32_t blocks) override
    {
        network_.put({from_, to}, {.block = {}, .leave = blocks});
    }

  private:
    Network &network_;
    uint32_t from_;
};

// All members of a set, each with its own view.
class Members
{
  public:
    explicit Members(Nodes &nodes) : directories_(nodes.open_all())
    {
        for (uint32_t i = 0; i < nodes.count(); i++) {
            sets_.push_back(std::make_unique<Description>(nodes.set()));
            sets_[i]->member = i;
            senders_.push_back(std::make_unique<Sender>(network, i));
            all.push_back(std::make_unique<Exchange>(*sets_[i], directories_[i], trust_, false,
                                                     *senders_[i]));
        }
    }

    Result<void> begin()
    {
        for (const auto &one : all) {
            if (Result<void> begun = one->begin(); !begun)
                return begun;
        }
        return {};
    }
    // Until nothing is on its way.
    Result<void> deliver(std::mt19937 &random)
    {
        while (const std::optional<Network::Way> way = network.choose(random)) {
            if (Result<void> taken = deliver_to(*all[way->second], way->first, network.take(*way));
                !taken)
                return taken;
        }
        return {};
    }
    Result<void> commit()
    {
        for (const auto &one : all) {
            if (Result<void> done = one->commit(); !done)
                return done;
        }
        return {};
    }

  private:
    Trust trust_;
    std::vector<Directory> directories_;
    std::vector<std::unique_ptr<Description>> sets_;
    std::vector<std::unique_ptr<Sender>> senders_;

  public:
    Network network;
    std::vector<std::unique_ptr<Exchange>> all; // goes first: it refers to the rest
};

std::vector<std::string> take_parity(const Nodes &nodes)
{
    std::vector<std::string> all;
    for (size_t i = 0; i < nodes.count(); i++) {
        all.push_back(Nodes::read(nodes.parity(i)));
        std::filesystem::remove(nodes.parity(i));
    }
    return all;
}

TEST(Exchanges, MakeTheSameParityAsOneWhoSeesAll)
{
    std::mt19937 random(50);
    for (unsigned round = 0; round < 60; round++) {
        Sizes sizes(2 + random() % 5);
        for (std::vector<size_t> &node : sizes) {
            node.resize(random() % 3);
            for (size_t &size : node)
                size = random() % 3 == 0 ? 0 : random() % 150'000;
        }
        const size_t losses = 1 + random() % (sizes.size() - 1);
        const std::string scheme = random() % 4 == 0 ? "partner" : "rs:" + std::to_string(losses);
        SCOPED_TRACE("round " + std::to_string(round) + ", " + scheme);
        Nodes nodes(scheme, sizes, smallest_block, round);
        ASSERT_TRUE(nodes.encode());
        const std::vector<std::string> expected = take_parity(nodes);
        {
            Members members(nodes);
            ASSERT_TRUE(members.begin());
            const Result<void> delivered = members.deliver(random);
            ASSERT_TRUE(delivered) << delivered.error().text();
            const Result<void> done = members.commit();
            ASSERT_TRUE(done) << done.error().text();
            EXPECT_LE(members.network.most_blocks(), Exchange::window);
        }
        EXPECT_EQ(take_parity(nodes), expected);
    }
}

const Sizes four = {{100'000}, {100'000}, {100'000}, {100'000}};

TEST(Exchanges, WaitForSilentMembers)
{
    Nodes nodes("xor", four);
    {
        Members members(nodes);
        for (const uint32_t i : {0, 1, 2})
            ASSERT_TRUE(members.all[i]->begin());
        while (true) { // what goes to the silent one stays on its way
            bool any = false;
            for (uint32_t from = 0; from < 3; from++) {
                for (uint32_t to = 0; to < 3; to++) {
                    while (members.network.has({from, to})) {
                        ASSERT_TRUE(
                            deliver_to(*members.all[to], from, members.network.take({from, to})));
                        any = true;
                    }
                }
            }
            if (!any)
                break;
        }
        EXPECT_LE(members.network.most_blocks(), Exchange::window);
        for (const uint32_t i : {0, 1, 2}) {
            EXPECT_FALSE(members.all[i]->is_complete());
            const Result<void> early = members.all[i]->commit();
            ASSERT_FALSE(early);
            EXPECT_EQ(early.error().code(), EPROTO);
        }
    }
    for (size_t i = 0; i < nodes.count(); i++) { // and leave nothing
        EXPECT_FALSE(std::filesystem::exists(nodes.parity(i)));
        EXPECT_FALSE(std::filesystem::exists(nodes.at(i) / ".parity.tmp"));
    }
}

TEST(Exchanges, TakeNothingThatMembersMayNotSend)
{
    Nodes nodes("xor", four);
    Members members(nodes);
    Exchange &one = *members.all[0];
    ASSERT_TRUE(one.begin());
    const std::vector<uint8_t> block(smallest_block);
    const uint64_t sum = image::checksum64(block);
    const auto refused = [&](const Result<void> &taken, const std::string &why) {
        ASSERT_FALSE(taken) << why;
        EXPECT_EQ(taken.error().code(), EPROTO);
        EXPECT_EQ(taken.error().text(), nodes.parity(0).string() + ": " + why);
    };
    refused(one.take_block(0, block, sum), "n0 is no other member of the set");
    refused(one.take_block(4, block, sum), "member 4 is no other member of the set");
    refused(one.take_leave(9, 1), "member 9 is no other member of the set");
    refused(one.take_block(1, image::Bytes(block).first(1), sum),
            "n1 has sent a block of another size");
    refused(one.take_block(1, {}, sum), "n1 has sent a block of another size");
    for (uint32_t i = 0; i < Exchange::window; i++) // the others of their rows are silent
        ASSERT_TRUE(one.take_block(1, block, sum));
    refused(one.take_block(1, block, sum), "n1 has sent more blocks than it may");
    refused(one.take_leave(2, Exchange::window + 1), "n2 has taken more blocks than it got");
    refused(one.take_leave(2, 0), "n2 has taken more blocks than it got");
}

TEST(Exchanges, TakeNoBlockThatCameDamaged)
{
    Nodes nodes("xor", four);
    Members members(nodes);
    Exchange &one = *members.all[0];
    ASSERT_TRUE(one.begin());
    std::vector<uint8_t> block(smallest_block);
    const uint64_t sum = image::checksum64(block);
    block[smallest_block - 1] = 1;
    const Result<void> taken = one.take_block(1, block, sum);
    ASSERT_FALSE(taken);
    EXPECT_EQ(taken.error().code(), EBADMSG);
    EXPECT_EQ(taken.error().text(), nodes.parity(0).string() + ": a block of n1 came damaged");
}

// All that the others may send comes to one that begins last.
TEST(Exchanges, KeepWhatComesBeforeTheyBegin)
{
    std::mt19937 random(53);
    Nodes nodes("xor", four);
    ASSERT_TRUE(nodes.encode());
    const std::vector<std::string> expected = take_parity(nodes);
    {
        Members members(nodes);
        for (const uint32_t i : {1, 2, 3})
            ASSERT_TRUE(members.all[i]->begin());
        const Result<void> early = members.deliver(random);
        ASSERT_TRUE(early) << early.error().text();
        EXPECT_FALSE(members.all[0]->is_complete());
        ASSERT_TRUE(members.all[0]->begin());
        ASSERT_TRUE(members.deliver(random));
        const Result<void> done = members.commit();
        ASSERT_TRUE(done) << done.error().text();
    }
    EXPECT_EQ(take_parity(nodes), expected);
}

// The row's blocks are used up: what is coded later would be of no row.
TEST(Exchanges, EndWithTheFirstBlockThatCannotBeWritten)
{
    std::mt19937 random(54);
    Nodes nodes("xor", four);
    Members members(nodes);
    ASSERT_TRUE(members.begin());
    const auto before = signal(SIGXFSZ, SIG_IGN);
    rlimit limit = {};
    ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const rlimit nothing = {.rlim_cur = 1, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_FSIZE, &nothing);
    const Result<void> delivered = members.deliver(random);
    setrlimit(RLIMIT_FSIZE, &limit);
    signal(SIGXFSZ, before);
    ASSERT_FALSE(delivered);
    EXPECT_EQ(delivered.error().code(), EFBIG);
    while (const std::optional<Network::Way> way = members.network.choose(random)) {
        const Letter letter = members.network.take(*way);
        static_cast<void>(deliver_to(*members.all[way->second], way->first, letter));
    }
    const auto has_failed = [](const auto &one) {
        const Result<void> done = one->commit();
        return !done && done.error().code() == EFBIG;
    };
    EXPECT_EQ(std::ranges::count_if(members.all, has_failed), 1);
}

TEST(Exchanges, TakeNoBlocksBehindTheLast)
{
    std::mt19937 random(51);
    Nodes nodes("xor", {{5000}, {5000}});
    Members members(nodes);
    ASSERT_TRUE(members.begin());
    ASSERT_TRUE(members.deliver(random));
    EXPECT_TRUE(members.all[0]->is_complete());
    const std::vector<uint8_t> block(smallest_block);
    EXPECT_FALSE(members.all[0]->take_block(1, block, image::checksum64(block)));
    EXPECT_FALSE(members.all[0]->take_leave(1, 1)); // it has got nothing that it has not taken
}

TEST(Exchanges, SendNoFileThatIsNotAsDescribed)
{
    std::mt19937 random(52);
    Nodes nodes("rs:2", four);
    Nodes::flip(nodes.file(2), 99'999);
    {
        Members members(nodes);
        ASSERT_TRUE(members.begin());
        const Result<void> delivered = members.deliver(random);
        ASSERT_FALSE(delivered);
        EXPECT_EQ(delivered.error().code(), EBADMSG);
        EXPECT_EQ(delivered.error().text(),
                  nodes.file(2).string() + ": is not what was saved (checksum)");
        EXPECT_FALSE(members.all[2]->commit());
    }
    EXPECT_FALSE(std::filesystem::exists(nodes.parity(2)));
}

} // namespace

} // namespace cryo::redundancy
