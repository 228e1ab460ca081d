// SPDX-License-Identifier: Apache-2.0
//
// Pages that go from a server into a file, whether the file takes them by reference or not; and
// servers that end.
#include "capture/session/page_source.hpp"

#include "base/passing.hpp"
#include "protocol/decode.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

namespace cryo::capture {
namespace {

constexpr uint64_t page = 4096;

// Serves this process's memory, as the agent does; ends after `bytes`, with error `why` if set.
// is_typed: it has shown that it reads more than what older releases say.
class Server
{
  public:
    explicit Server(uint64_t bytes = std::numeric_limits<uint64_t>::max(), int why = 0,
                    bool is_typed = true)
        : left_(bytes), why_(why), is_typed_(is_typed)
    {
        int pair[2] = {-1, -1};
        int ends[2] = {-1, -1};
        EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
        EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
        commands_.reset(pair[1]);
        pipe_.reset(ends[1]);
        signal(SIGPIPE, SIG_IGN); // raised when the reader has gone
        source_.emplace(Fd(pair[0]), Fd(ends[0]), getpid());
        source_->set_typed(is_typed);
        thread_ = std::thread([this] { serve(); });
    }
    ~Server()
    {
        source_.reset();
        thread_.join();
    }
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;
    PageSource &source() { return *source_; }
    void answer(const agent::PagesRequest &request)
    {
        goes_on_ = send(request.start.number(), request.length);
    }

  private:
    void serve()
    {
        agent::Incoming in = {};
        ssize_t n = 0;
        while (goes_on_ && (n = receive_packet(commands_.get(), room_in(in), MSG_TRUNC)) > 0) {
            ASSERT_TRUE(agent::is_request(in, n));
            EXPECT_EQ(is_typed_, in.head.version >= agent::first_typed);
            ASSERT_EQ(0, agent::Requests<agent::PagesRequest>::decode(in, n, *this));
        }
        if (!goes_on_ && why_ != 0) {
            const agent::Reply bad = {
                agent::protocol_magic, agent::protocol_version, agent::Op::pages, -why_, 0, 0};
            send_with(commands_.get(), bytes_of(bad), {});
        }
        pipe_.reset();
        commands_.reset();
    }
    bool send(uint64_t address, uint64_t size)
    {
        while (size > 0 && left_ > 0) {
            const iovec part = {reinterpret_cast<void *>(address), std::min(size, left_)};
            const ssize_t n = vmsplice(pipe_.get(), &part, 1, 0);
            if (n <= 0)
                return true;
            address += static_cast<uint64_t>(n);
            size -= static_cast<uint64_t>(n);
            left_ -= static_cast<uint64_t>(n);
        }
        return size == 0;
    }

    uint64_t left_;
    int why_;
    bool is_typed_;
    bool goes_on_ = true;
    Fd commands_, pipe_;
    std::optional<PageSource> source_;
    std::thread thread_;
};

// Pages in parts of 1 to 7, some of which are requested differently.
class Memory
{
  public:
    explicit Memory(size_t pages) : size_(pages * page)
    {
        start_ = static_cast<char *>(
            mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        std::mt19937 random(5);
        for (size_t i = 0; i < size_; i += sizeof(uint32_t))
            *reinterpret_cast<uint32_t *>(start_ + i) = static_cast<uint32_t>(random());
        auto at = reinterpret_cast<uint64_t>(start_);
        for (uint64_t left = pages; left > 0;) {
            const uint64_t count = std::min<uint64_t>(left, 1 + random() % 7);
            parts.push_back({{at, at + count * page}, random() % 5 == 0, PROT_READ | PROT_WRITE});
            at += count * page;
            left -= count;
        }
    }
    ~Memory() { munmap(start_, size_); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    std::string text() const { return {start_, size_}; }

    std::vector<PageSource::Part> parts;

  private:
    char *start_ = nullptr;
    size_t size_;
};

std::string contents(int file)
{
    std::string all(static_cast<size_t>(lseek(file, 0, SEEK_END)), 0);
    EXPECT_EQ(ssize_t(all.size()), pread(file, all.data(), all.size(), 0));
    return all;
}

class Put : public testing::TestWithParam<int>
{
  protected:
    Fd file{open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC | GetParam(), 0600)};
    uint64_t moved = 0;

    Result<void> put(Server &server, const Memory &memory, uint64_t offset)
    {
        server.source().tell([this](uint64_t bytes) { moved += bytes; });
        return server.source().put(memory.parts, {file.get(), "file", offset});
    }
};

TEST_P(Put, AllOfItStandsWhereItBelongs)
{
    ASSERT_TRUE(file);
    const std::string head(3 * page, 'h');
    ASSERT_EQ(ssize_t(head.size()), pwrite(file.get(), head.data(), head.size(), 0));
    const Memory memory(3000); // more than the pipe holds, in more parts than are requested at once
    Server server;
    const Result<void> done = put(server, memory, head.size());
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(3000 * page, moved);
    EXPECT_EQ(head + memory.text(), contents(file.get()));
}

TEST_P(Put, WhoServesIsOfAnOlderRelease)
{
    ASSERT_TRUE(file);
    const Memory memory(300);
    Server server(std::numeric_limits<uint64_t>::max(), 0, false);
    const Result<void> done = put(server, memory, 0);
    ASSERT_TRUE(done) << done.error().text();
    EXPECT_EQ(memory.text(), contents(file.get()));
}

TEST_P(Put, WhoServesHasEnded)
{
    ASSERT_TRUE(file);
    const Memory memory(3000);
    for (const int why : {0, EFAULT}) {
        Server server(1000 * page + 5, why);
        const Result<void> done = put(server, memory, 0);
        ASSERT_FALSE(done);
        EXPECT_EQ(why == 0 ? EPIPE : why, done.error().code());
        EXPECT_NE(std::string::npos, done.error().text().find("ended while sending"));
    }
}

TEST_P(Put, TheDeadlineIsOver)
{
    ASSERT_TRUE(file);
    const Memory memory(300);
    Server server;
    server.source().set_deadline(1);
    const Result<void> done = put(server, memory, 0);
    ASSERT_FALSE(done);
    EXPECT_EQ(ETIME, done.error().code());
}

// An append-only file accepts no splice(2), so pages are copied; they end up in the right place,
// since that is the end of the file.
INSTANTIATE_TEST_SUITE_P(File, Put, testing::Values(0, O_APPEND), [](const auto &tried) {
    return tried.param == 0 ? "ByReference" : "ByCopy";
});

// The server sends a byte now and then, or none.
class Miser : public testing::TestWithParam<bool>
{
  protected:
    Miser()
    {
        int pair[2] = {-1, -1};
        int ends[2] = {-1, -1};
        EXPECT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
        EXPECT_EQ(0, pipe2(ends, O_CLOEXEC));
        theirs.reset(pair[1]);
        pipe.reset(ends[1]);
        source.emplace(Fd(pair[0]), Fd(ends[0]), getpid());
        source->set_silence(300'000'000);
        if (GetParam())
            sender = std::jthread([this](const std::stop_token &enough) {
                while (!enough.stop_requested() && write(pipe.get(), "x", 1) == 1)
                    std::this_thread::sleep_for(std::chrono::milliseconds(5));
            });
    }
    static void expect_given_up(const Result<void> &done)
    {
        ASSERT_FALSE(done);
        EXPECT_NE(std::string::npos, done.error().text().find("sends nothing of its memory"))
            << done.error().text();
    }

    Fd theirs, pipe;
    std::optional<PageSource> source;
    std::jthread sender;
};

TEST_P(Miser, IsNotReadForEver)
{
    std::vector<char> room(page);
    expect_given_up(source->read(RemoteAddress(page), room, false));
}

TEST_P(Miser, IsNotPutForEver)
{
    const Memory memory(20);
    const Fd file(open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    ASSERT_TRUE(file);
    expect_given_up(source->put(memory.parts, {file.get(), "the file", 0}));
}

INSTANTIATE_TEST_SUITE_P(PageSource, Miser, testing::Bool(),
                         [](const auto &tried) { return tried.param ? "ByteByByte" : "Nothing"; });

TEST(PageSource, TheFileIsNotWritable)
{
    const Fd file(open("/dev/null", O_RDONLY | O_CLOEXEC));
    const Memory memory(20);
    Server server;
    const Result<void> done = server.source().put(memory.parts, {file.get(), "the file", 0});
    ASSERT_FALSE(done);
    EXPECT_EQ(EBADF, done.error().code());
    EXPECT_EQ(0U, done.error().text().find("the file: writing"));
}

// Of a copy that has ended nothing follows for the program.
TEST(PageSource, TellsWhenTheProgramHasEnded)
{
    const pid_t ended = fork();
    if (ended == 0)
        _exit(0);
    ASSERT_EQ(ended, waitpid(ended, nullptr, 0));
    for (const bool program_serves : {false, true}) {
        std::array<int, 2> pair{};
        std::array<int, 2> ends{};
        ASSERT_EQ(0, socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair.data()));
        ASSERT_EQ(0, pipe2(ends.data(), O_CLOEXEC));
        PageSource source(Fd(pair[0]), Fd(ends[0]), ended);
        const Fd commands(pair[1]);
        close(ends[1]);
        if (program_serves)
            source.set_program_serves();
        std::vector<char> room(page);
        const Result<void> done = source.read(RemoteAddress(page), room, false);
        ASSERT_FALSE(done);
        EXPECT_EQ(program_serves ? Reason::has_ended : Reason::other, done.error().reason());
    }
}

} // namespace
} // namespace cryo::capture
