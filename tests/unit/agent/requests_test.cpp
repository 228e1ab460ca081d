// SPDX-License-Identifier: Apache-2.0
//
// How the agent reads requests of its own release, of later ones, of earlier ones, and of nobody.
#include "protocol/decode.hpp"
#include "protocol/outgoing.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <span>
#include <vector>

namespace cryo::agent {
namespace {

// As a later release may extend TouchedRequest.
struct LaterRequest {
    static constexpr Op op = Op::touched;
    static constexpr uint32_t first_size = 24, known_flags = 3;
    uint32_t size = sizeof(LaterRequest), flags = 0;
    RemoteAddress start = {};
    uint64_t count = 0;
    uint64_t addition = 0;
};
constexpr void translate(LaterRequest &, auto) {} // it is not sent to older releases

struct Answers {
    int timers = 0, stops = 0;
    TimerRequest timer;

    void answer(const TimerRequest &request)
    {
        timers++;
        timer = request;
    }
    void answer(const StopRequest &) { stops++; }
};
using Table = Requests<TimerRequest, StopRequest>;

class Packet
{
  public:
    explicit Packet(std::span<const char> bytes) : bytes_(bytes.begin(), bytes.end()) {}
    template <class R>
    explicit Packet(const R &request, bool is_typed = true)
        : Packet(Outgoing(request, is_typed).bytes())
    {}
    Packet &append(char byte, size_t count = 1)
    {
        bytes_.insert(bytes_.end(), count, byte);
        return *this;
    }
    // The size that the request itself tells.
    Packet &tell(uint32_t size)
    {
        memcpy(bytes_.data() + sizeof(Head), &size, sizeof(size));
        return *this;
    }
    Packet &tell_true() { return tell(static_cast<uint32_t>(bytes_.size() - sizeof(Head))); }
    Packet &cut(size_t size)
    {
        bytes_.resize(size);
        return *this;
    }
    // What the agent has of it: a long packet does not fit.
    Incoming in() const
    {
        Incoming in;
        memset(static_cast<void *>(&in), 0xa5, sizeof(in));
        memcpy(static_cast<void *>(&in), bytes_.data(), std::min(bytes_.size(), sizeof(in)));
        return in;
    }
    long size() const { return static_cast<long>(bytes_.size()); }
    bool is_request() const { return agent::is_request(in(), size()); }
    template <class R>
    long decode(R &request) const
    {
        EXPECT_TRUE(is_request());
        return decode_request(in(), size(), request);
    }

  private:
    std::vector<char> bytes_;
};

const TouchedRequest touched = {.start = RemoteAddress(0x7f0000000000), .count = 5};

TEST(AgentRequests, AreReadAsTheyWereWritten)
{
    TouchedRequest request;
    ASSERT_EQ(0, Packet(touched).decode(request));
    EXPECT_EQ(touched.start, request.start);
    EXPECT_EQ(5U, request.count);
    PagesRequest pages;
    ASSERT_EQ(0, Packet(PagesRequest{.flags = PagesRequest::zeros_for_missing, .protection = 3})
                     .decode(pages));
    EXPECT_EQ(PagesRequest::zeros_for_missing, pages.flags);
    EXPECT_EQ(3, pages.protection);
}

TEST(AgentRequests, AreFilledUpWithZeros)
{
    LaterRequest request;
    request.addition = 7;
    ASSERT_EQ(0, Packet(touched).decode(request));
    EXPECT_EQ(touched.start, request.start);
    EXPECT_EQ(5U, request.count);
    EXPECT_EQ(0U, request.addition);
}

TEST(AgentRequests, MayBeLongerIfTheRestIsZeros)
{
    TouchedRequest request;
    LaterRequest later;
    ASSERT_EQ(0, Packet(later).decode(request));
    later.addition = uint64_t(1) << 63;
    EXPECT_EQ(-E2BIG, Packet(later).decode(request));
    Packet longest(touched);
    longest.append(0, sizeof(Incoming) - static_cast<size_t>(longest.size())).tell_true();
    EXPECT_EQ(0, longest.decode(request));
    EXPECT_EQ(-E2BIG, longest.append(0, 8).tell_true().decode(request));
}

TEST(AgentRequests, TellTheirSize)
{
    TouchedRequest request;
    EXPECT_EQ(-EINVAL, Packet(touched).append('x').decode(request)); // garbage behind
    EXPECT_EQ(-EINVAL, Packet(touched).tell(0).decode(request));
    EXPECT_EQ(-EINVAL, Packet(touched).tell(sizeof(touched) - 8).decode(request));
    EXPECT_EQ(-EINVAL, Packet(touched).cut(sizeof(Head) + 16).tell_true().decode(request));
    EXPECT_EQ(-EINVAL, Packet(touched).cut(sizeof(Head) + 16).decode(request));
    EXPECT_EQ(-EINVAL, Packet(touched).tell(std::numeric_limits<uint32_t>::max()).decode(request));
}

TEST(AgentRequests, HaveNoUnknownFlags)
{
    AliveRequest alive;
    EXPECT_EQ(0, Packet(AliveRequest{.flags = AliveRequest::wants_reply}).decode(alive));
    EXPECT_EQ(-EOPNOTSUPP, Packet(AliveRequest{.flags = 2}).decode(alive));
    StopRequest stop;
    EXPECT_EQ(-EOPNOTSUPP, Packet(StopRequest{.flags = 1}).decode(stop));
}

TEST(AgentRequests, KeepWhatIsReservedZero)
{
    TimerRequest timer;
    EXPECT_EQ(-EOPNOTSUPP, Packet(TimerRequest{.id = 1, .reserved = 1}).decode(timer));
    PrepareRequest prepare;
    EXPECT_EQ(-EOPNOTSUPP, Packet(PrepareRequest{.reserved = {0, 1}}).decode(prepare));
}

TEST(AgentRequests, AreAnsweredByTheirType)
{
    Answers answers;
    const Packet timer(TimerRequest{.id = 3});
    const Packet stop(StopRequest{});
    EXPECT_EQ(0, Table::decode(timer.in(), timer.size(), answers));
    EXPECT_EQ(0, Table::decode(stop.in(), stop.size(), answers));
    EXPECT_EQ(1, answers.timers);
    EXPECT_EQ(1, answers.stops);
    EXPECT_EQ(3, answers.timer.id);
}

TEST(AgentRequests, AreNotAnsweredIfRefused)
{
    Answers answers;
    const Packet unknown(touched);
    EXPECT_EQ(-EOPNOTSUPP, Table::decode(unknown.in(), unknown.size(), answers));
    const Packet wrong(TimerRequest{.flags = 1});
    EXPECT_EQ(-EOPNOTSUPP, Table::decode(wrong.in(), wrong.size(), answers));
    const Packet longer = Packet(StopRequest{}).append('x', 8).tell_true();
    EXPECT_EQ(-E2BIG, Table::decode(longer.in(), longer.size(), answers));
    EXPECT_EQ(0, answers.timers + answers.stops);
}

TEST(AgentRequests, HaveTheHeadOfOne)
{
    EXPECT_TRUE(Packet(StopRequest{}).is_request());
    for (size_t size = 0; size < sizeof(Head) + sizeof(StopRequest); size++)
        EXPECT_FALSE(Packet(StopRequest{}).cut(size).is_request()) << size;
    EXPECT_TRUE(Packet(StopRequest{}, false).is_request());
    EXPECT_FALSE(Packet(StopRequest{}, false).cut(sizeof(Command) - 1).is_request());
    const Packet one(StopRequest{});
    EXPECT_FALSE(is_request(one.in(), -EPIPE));
    Incoming in = one.in();
    in.head.magic++;
    EXPECT_FALSE(is_request(in, one.size()));
}

// Requests that say something are the same after they were translated there and back.
template <class R>
void expect_same(const R &request)
{
    R back;
    const Packet older(request, false);
    EXPECT_EQ(long(sizeof(Command)), older.size());
    EXPECT_EQ(last_older, older.in().head.version);
    EXPECT_EQ(R::op, older.in().head.op);
    ASSERT_EQ(0, older.decode(back));
    EXPECT_EQ(0, memcmp(&request, &back, sizeof(R))) << int(R::op);
}

TEST(AgentRequests, AreUnderstoodByOlderReleases)
{
    const RemoteAddress far(0xffffffffff600000);
    expect_same(StopRequest{});
    expect_same(PagesRequest{
        .flags = PagesRequest::zeros_for_missing, .start = far, .length = 4096, .protection = 5});
    expect_same(PagesRequest{.start = far, .length = 4096, .protection = 0});
    expect_same(PagesRequest{.start = far, .length = 4096});
    expect_same(ScanRequest{.start = far, .end = far + 4096});
    expect_same(ResumeRequest{.why = EIO, .signal = 19});
    expect_same(AliveRequest{});
    expect_same(AliveRequest{.flags = AliveRequest::wants_reply});
    expect_same(TimerRequest{.id = 4});
    expect_same(DescriptorsRequest{.first = 7, .wanted = {1, 2, uint64_t(1) << 63}});
    expect_same(TerminalRequest{.master = 8});
    expect_same(QueueRequest{.descriptor = 9});
    expect_same(TrackerRequest{.kind = TrackerKind::soft_dirty});
    expect_same(WatchedRequest{.token = {10, 11}, .notes = note_foreign});
    expect_same(WatchedRequest{.flags = WatchedRequest::is_over});
    expect_same(StageRequest{.count = 12, .offset = 13});
    expect_same(TouchedRequest{.start = far, .count = 14});
    expect_same(UndoRequest{.id = 15, .first = 16, .count = 17});
    expect_same(AioRequest{.ring = far, .bytes = 18, .idle = 19});
}

// The numbers as those releases have them.
TEST(AgentRequests, HaveTheNumbersOfOlderReleases)
{
    const Command pages = older_form(PagesRequest{.flags = PagesRequest::zeros_for_missing,
                                                  .start = RemoteAddress(0x1000),
                                                  .length = 0x2000,
                                                  .protection = 3});
    EXPECT_EQ(0x1000U, pages.arg[0]);
    EXPECT_EQ(0x2000U, pages.arg[1]);
    EXPECT_EQ(1U, pages.arg[2]);
    EXPECT_EQ(4U, pages.arg[3]);
    const Command watched =
        older_form(WatchedRequest{.flags = WatchedRequest::is_over, .token = {1, 2}, .notes = 3});
    EXPECT_EQ(1U, watched.arg[0]);
    EXPECT_EQ(2U, watched.arg[1]);
    EXPECT_EQ(1U, watched.arg[2]);
    EXPECT_EQ(3U, watched.arg[3]);
    EXPECT_EQ(0U, older_form(PagesRequest{}).arg[3]);
}

TEST(AgentRequests, ShowWhatAnOlderRequesterCanDo)
{
    Command prepare = {{protocol_magic, 3, Op::prepare}, {}};
    EXPECT_FALSE(has(from_older<PrepareRequest>(prepare).features, Feature::forward));
    prepare.head.version = 4;
    EXPECT_TRUE(has(from_older<PrepareRequest>(prepare).features, Feature::forward));
    EXPECT_EQ(0U, features_of(0));
    const auto since = static_cast<uint64_t>(Feature::judged_filters) |
                       static_cast<uint64_t>(Feature::judged_settings) |
                       static_cast<uint64_t>(Feature::prove);
    EXPECT_EQ(all_features, features_of(last_older) | since);
    EXPECT_FALSE(has(features_of(17), Feature::aio));
    EXPECT_TRUE(has(features_of(18), Feature::aio));
}

} // namespace
} // namespace cryo::agent
