// SPDX-License-Identifier: Apache-2.0
//
// An agent that answers and closes the socket while the session waits; one that never finishes its
// answer; one that has given up waiting for the session; one of an older release; and one that
// would have us write into another program. A process without an agent.
#include "base/passing.hpp"
#include "capture/session/enterable.hpp"
#include "capture/session/session.hpp"
#include "protocol/decode.hpp"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <functional>
#include <gtest/gtest.h>
#include <new>
#include <string>
#include <string_view>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <utility>

namespace {

// Runs the agent's part after the kernel has found no packet and before it reports end of file,
// which recv then returns.
std::function<void()> between;

} // namespace

// Replaces the C library's.
extern "C" ssize_t recv(int from, void *to, size_t size, int flags)
{
    if (!between)
        return syscall(SYS_recvfrom, from, to, size, flags, nullptr, nullptr);
    std::exchange(between, nullptr)();
    return 0;
}

namespace cryo::capture {
namespace {

struct Agent {
    Fd end;

    void answer(const agent::Reply &reply) const
    {
        EXPECT_EQ(ssize_t(sizeof(reply)), send_with(end.get(), bytes_of(reply), {}));
    }
    // The agent's last action if there are no callbacks.
    void go_on()
    {
        agent::Command command = {};
        std::vector<Fd> none;
        EXPECT_EQ(ssize_t(sizeof(command)), receive_with(end.get(), room_in(command), none));
        EXPECT_EQ(agent::Op::resume, command.head.op);
        answer({agent::protocol_magic, agent::protocol_version, command.head.op, 0, 0, 0});
        end.reset();
    }
};

std::pair<AgentSession, Agent> begin()
{
    std::array<int, 2> ends{};
    EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()));
    return {AgentSession::adopt(Fd(ends[0]), getpid()), Agent{Fd(ends[1])}};
}

TEST(Session, AnswersAndHangsUpBefore)
{
    auto [session, agent] = begin();
    ASSERT_TRUE(session.ask_to_resume(0));
    agent.go_on();
    EXPECT_TRUE(session.await_resumed());
}

TEST(Session, AnswersAndHangsUpWhileItIsLookedFor)
{
    auto [session, agent] = begin();
    ASSERT_TRUE(session.ask_to_resume(0));
    between = [&end = agent] { end.go_on(); };
    const Result<void> gone = session.await_resumed();
    EXPECT_TRUE(gone) << (gone ? "" : gone.error().text());
}

TEST(Session, HangsUpWithoutAnAnswer)
{
    auto [session, agent] = begin();
    ASSERT_TRUE(session.ask_to_resume(0));
    agent.end.reset();
    const Result<void> gone = session.await_resumed();
    ASSERT_FALSE(gone);
    EXPECT_NE(std::string::npos, gone.error().text().find("has closed the connection"));
}

constexpr uint64_t silence_ns = 300'000'000;

template <class Result>
void expect_error(const Result &result, std::string_view words)
{
    ASSERT_FALSE(result);
    EXPECT_NE(std::string::npos, result.error().text().find(words)) << result.error().text();
}

agent::Reply reply_to(agent::Op op, uint64_t count = 0)
{
    return {agent::protocol_magic, agent::protocol_version, op, 0, 0, count};
}

TEST(Session, IsNotWaitedForWithoutEnd)
{
    auto [session, agent] = begin();
    session.set_silence(silence_ns);
    expect_error(session.facts().process(), "does not answer");
}

TEST(Session, TakesNothing)
{
    auto [session, agent] = begin();
    session.set_silence(silence_ns);
    Result<void> asked;
    while (asked)
        asked = session.ask_to_stop();
    expect_error(asked, "does not answer");
}

TEST(Session, TellsALittleAtATime)
{
    auto [session, agent] = begin();
    session.set_silence(silence_ns);
    agent.answer(reply_to(agent::Op::threads, 1000));
    std::jthread slow([&end = agent](const std::stop_token &enough) {
        const agent::ThreadFacts facts = {};
        while (!enough.stop_requested() &&
               send_with(end.end.get(), bytes_of(facts), {}, MSG_DONTWAIT) > 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
    });
    expect_error(session.facts().threads(), "does not answer");
}

TEST(Session, TellsWithoutEnd)
{
    auto [session, agent] = begin();
    session.set_silence(silence_ns);
    agent.answer(reply_to(agent::Op::threads, uint64_t(1) << 60));
    expect_error(session.facts().threads(), "another protocol");
    ASSERT_TRUE(session.ask_to_resume(0));
    std::jthread chatters([&end = agent](const std::stop_token &enough) {
        const agent::Reply nothing = reply_to(agent::Op::alive);
        while (!enough.stop_requested())
            send_with(end.end.get(), bytes_of(nothing), {}, MSG_DONTWAIT);
    });
    EXPECT_TRUE(session.await_resumed()); // the session was given up before
}

TEST(Session, TellsOfMoreThanThereCanBe)
{
    auto [session, agent] = begin();
    for (const agent::Op op : {agent::Op::watches, agent::Op::ipc})
        agent.answer(reply_to(op, uint64_t(1) << 60));
    session.set_silence(silence_ns);
    expect_error(session.descriptors().watched(), "another protocol");
    expect_error(session.facts().ipc(), "another protocol");
}

TEST(Session, TellsOfPathsBeyondAllMemory)
{
    auto [session, agent] = begin();
    agent.answer(reply_to(agent::Op::watches, 1 << 20));
    std::jthread tells([&end = agent] {
        struct {
            agent::WatchedPath head = {0, 0, 4096, 0};
            char path[4096] = {};
        } one;
        while (send_with(end.end.get(), bytes_of(one), {}) > 0)
            continue;
    });
    expect_error(session.descriptors().watched(), "more than 256 MiB");
    session = begin().first; // hangs up
}

TEST(Session, PassesMoreDescriptorsThanWereAskedFor)
{
    auto [session, agent] = begin();
    const std::array<int, 2> two = {agent.end.get(), agent.end.get()};
    const agent::Reply answer = reply_to(agent::Op::descriptors, two.size());
    ASSERT_EQ(ssize_t(sizeof(answer)), send_with(agent.end.get(), bytes_of(answer), two));
    expect_error(session.descriptors().get({0}), "another protocol");
}

TEST(Session, ChattersInsteadOfGoingOn)
{
    auto [session, agent] = begin();
    session.set_silence(silence_ns);
    ASSERT_TRUE(session.ask_to_resume(0));
    std::jthread chatters([&end = agent](const std::stop_token &enough) {
        const agent::Reply nothing = reply_to(agent::Op::alive);
        while (!enough.stop_requested())
            send_with(end.end.get(), bytes_of(nothing), {}, MSG_DONTWAIT);
    });
    expect_error(session.await_resumed(), "does not answer");
}

// The agent waits for the rest of a request, and would take the next command for it.
TEST(Session, HangsUpAfterHalfOfARequest)
{
    auto [session, agent] = begin();
    const int room = 1; // the kernel rounds it up to its minimum: less than a packet
    ASSERT_EQ(0, setsockopt(session.fd(), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)));
    const std::vector<capture::Run> runs(agent::staged_at_once, {0, 4096});
    expect_error(session.memory().stage(agent.end.get(), 0, runs), "asking process");
    EXPECT_FALSE(session.ask_to_resume(0));
    agent::Command command = {};
    std::vector<Fd> file;
    EXPECT_EQ(ssize_t(sizeof(command)), receive_with(agent.end.get(), room_in(command), file));
    EXPECT_EQ(agent::Op::stage, command.head.op);
    EXPECT_EQ(0, receive_packet(agent.end.get(), room_in(command)));
}

// The next action, whichever it is, reports why the checkpoint failed.
TEST(Session, HasWaitedForUsInVain)
{
    for (const bool asks : {true, false}) {
        auto [session, agent] = begin();
        if (!asks) {
            ASSERT_TRUE(session.ask_to_resume(0));
        }
        agent::Reply last = reply_to(agent::Op::called_off);
        last.result = -ETIME;
        last.value = 10'000;
        agent.answer(last);
        agent.end.reset();
        const Result<void> done = asks ? session.ask_to_resume(0) : session.await_resumed();
        expect_error(done, "received nothing for 10 s");
    }
}

TEST(Session, StandsStill)
{
    auto [session, agent] = begin();
    agent.answer(reply_to(agent::Op::alive));
    EXPECT_TRUE(session.check_standing());
    agent.end.reset();
    EXPECT_FALSE(session.check_standing());
}

// What the session asks next, as an agent reads it; and its size.
std::pair<agent::Incoming, ssize_t> next_request(const Agent &agent)
{
    agent::Incoming in = {};
    const ssize_t n = receive_packet(agent.end.get(), room_in(in), MSG_TRUNC | MSG_DONTWAIT);
    EXPECT_TRUE(agent::is_request(in, n)) << n;
    return {in, n};
}

// Every agent understands the older form, so it is used until a reply shows that there is another.
TEST(Session, SpeaksAsTheAgentDoes)
{
    for (const uint16_t version : {agent::last_older, agent::first_typed}) {
        auto [session, agent] = begin();
        agent::Reply answer = reply_to(agent::Op::stop);
        answer.version = version;
        ASSERT_TRUE(session.ask_to_stop());
        agent.answer(answer);
        ASSERT_TRUE(session.stop());
        ASSERT_TRUE(session.ask_to_resume(5, 9));
        const auto [stop, stop_size] = next_request(agent);
        EXPECT_EQ(agent::last_older, stop.head.version);
        const auto [resume, size] = next_request(agent);
        EXPECT_EQ(version == agent::first_typed, resume.head.version >= agent::first_typed);
        agent::ResumeRequest request;
        ASSERT_EQ(0, agent::decode_request(resume, size, request));
        EXPECT_EQ(5, request.why);
        EXPECT_EQ(9, request.signal);
    }
}

// Older releases look at nothing of it but its head, and take no other size.
TEST(Session, PreparesEveryRelease)
{
    auto [session, agent] = begin();
    ASSERT_TRUE(session.ask_to_prepare(agent::RequestInfo{}));
    const auto [in, size] = next_request(agent);
    EXPECT_EQ(ssize_t(sizeof(agent::Command)), size);
    EXPECT_EQ(agent::Op::prepare, in.head.op);
    EXPECT_EQ(agent::protocol_version, in.head.version);
    agent::PrepareRequest request;
    ASSERT_EQ(0, agent::decode_request(in, size, request));
    EXPECT_TRUE(agent::has(request.features, agent::Feature::forward));
}

// An agent of protocol 20 or later says what it can do; for others it is known.
TEST(Session, AsksForNothingThatTheAgentLacks)
{
    struct Case {
        uint16_t version;
        uint64_t features;
        bool can;
    };
    for (const Case tried : {Case{11, 0, false}, Case{12, 0, true}, Case{20, 0, false},
                             Case{20, agent::all_features, true}, Case{21, ~uint64_t(0), true}}) {
        auto [session, agent] = begin();
        agent::Reply accepted = reply_to(agent::Op::accepted, tried.features);
        accepted.version = tried.version;
        agent.answer(accepted);
        ASSERT_TRUE(session.prepared());
        agent::Reply answer = reply_to(agent::Op::touched);
        answer.version = tried.version;
        agent.answer(answer);
        constexpr std::array<uint8_t, 1> bits = {1};
        ASSERT_EQ(1, send_with(agent.end.get(), bytes_of(bits), {}));
        const Result<std::vector<capture::Run>> found =
            session.memory().touched(RemoteAddress(0x10000), RemoteAddress(0x12000));
        EXPECT_EQ(tried.can, bool(found)) << tried.version;
        if (tried.can) {
            const auto [in, size] = next_request(agent);
            agent::TouchedRequest request;
            ASSERT_EQ(0, agent::decode_request(in, size, request));
            EXPECT_EQ(RemoteAddress(0x10000), request.start);
            EXPECT_EQ(2U, request.count);
        } else {
            EXPECT_EQ(EOPNOTSUPP, found.error().code());
        }
    }
}

// A process of this user with a word in its memory that stays 0, unless somebody writes there.
class Target
{
  public:
    explicit Target(uid_t user)
    {
        std::array<int, 2> ends{};
        EXPECT_EQ(0, pipe2(ends.data(), O_CLOEXEC));
        const Fd ready(ends[0]);
        Fd told(ends[1]);
        pid_ = fork();
        if (pid_ == 0) {
            const bool is_set = syscall(SYS_setresuid, user, user, user) == 0 &&
                                prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
            if (is_set && write(told.get(), "r", 1) == 1)
                pause();
            _exit(1);
        }
        told.reset();
        char byte = 0;
        EXPECT_EQ(1, read(ready.get(), &byte, 1));
    }
    ~Target()
    {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        munmap(word_, page_size);
    }
    Target(const Target &) = delete;
    Target &operator=(const Target &) = delete;

    pid_t pid() const { return pid_; }
    uint64_t place() const { return reinterpret_cast<uint64_t>(word_); }
    bool was_written() const { return word_->load() != 0; }

  private:
    using Word = std::atomic<uint64_t>;

    static Word *map()
    {
        void *at =
            mmap(nullptr, page_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        EXPECT_NE(MAP_FAILED, at);
        return new (at) Word(0);
    }

    static constexpr size_t page_size = 4096;
    Word *const word_ = map();
    pid_t pid_ = -1;
};

// Whether prove_right() succeeds, with an agent that names this word to each question. `listener`:
// who made the agent's end.
bool proves(const Target &target, uid_t listener)
{
    std::array<int, 2> ends{};
    EXPECT_EQ(0, seteuid(listener));
    EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()));
    EXPECT_EQ(0, seteuid(0));
    const Agent agent{Fd(ends[1])};
    const std::jthread answers([&agent, &target] {
        std::array<char, 256> request{};
        std::vector<Fd> none;
        agent::Reply reply = reply_to(agent::Op::prove);
        reply.value = target.place();
        while (receive_with(agent.end.get(), request, none) > 0)
            send_with(agent.end.get(), bytes_of(reply), {});
    });
    AgentSession session = AgentSession::adopt(Fd(ends[0]), target.pid());
    return bool(session.prove_right());
}

// Another process could have executed a program of root's by now, and have left a helper to answer.
TEST(Session, WritesOnlyIntoProgramsThatAreRootsFromTheBeginning)
{
    if (geteuid() != 0)
        GTEST_SKIP() << "only root writes into what is not dumpable";
    constexpr uid_t somebody = 65534;
    const Target roots(0);
    EXPECT_TRUE(proves(roots, 0));
    EXPECT_TRUE(roots.was_written());
    const Target executed(0);
    EXPECT_FALSE(proves(executed, somebody));
    EXPECT_FALSE(executed.was_written());
    const Target others(somebody);
    EXPECT_FALSE(proves(others, 0));
    EXPECT_FALSE(others.was_written());
}

TEST(Session, SaysWhereThereIsNoAgent)
{
    EXPECT_EQ(Reason::no_agent, not_hearing(Proc(getpid()), SIGRTMAX).reason());
    EXPECT_EQ(Reason::no_agent, not_listening(getpid()).reason());
}

} // namespace
} // namespace cryo::capture
