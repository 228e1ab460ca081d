// SPDX-License-Identifier: Apache-2.0
//
// The feed: the image holds what a stopped process sends, and a feed that was cut off anywhere
// makes no image. The code on the stopped side is checked for the functions it calls.
#include <fcntl.h>
#include <set>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>

#include "image/feed.hpp"
#include "image/feed_reader.hpp"
#include "sample.hpp"

namespace cryo::image {
namespace {

enum class Wire { pipe, socket };

std::pair<Fd, Fd> make_wire(Wire wire)
{
    int ends[2] = {-1, -1};
    if (wire == Wire::pipe)
        EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    else
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    return {Fd(ends[0]), Fd(ends[1])};
}

void send(Feed &feed, const Model &model)
{
    feed.begin();
    for (const RawRecord &r : model.records)
        feed.record(r.type, r.version, r.flags, r.payload);
    for (const auto &[key, page] : model.pages) {
        if (page == PageBytes{})
            feed.zero(key.first, key.second, 1);
        else
            feed.pages(key.first, key.second, page.data(), 1);
    }
}

Result<Committed> receive(int fd, const std::string &path)
{
    auto sink = FileSink::create(path, {.existing = Existing::replace, .sync = false});
    auto writer = ImageWriter::create(std::move(*sink));
    if (auto ok = FeedReader(fd, "process 412").pump(**writer); !ok)
        return ok.error();
    return (*writer)->commit();
}

class FeedOver : public testing::TestWithParam<Wire>
{};

TEST_P(FeedOver, WhatIsSentIsInTheImage)
{
    Scratch dir;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        Model model = Model::random(seed, 2000);
        auto [in, out] = make_wire(GetParam());
        std::thread sender([&, fd = out.get()] {
            Feed feed(fd);
            send(feed, model);
            EXPECT_EQ(feed.end(), 0);
        });
        auto done = receive(in.get(), dir / "image");
        sender.join();
        ASSERT_TRUE(done) << done.error().text();
        EXPECT_EQ(read_by_index(dir / "image", Access::map), model);
    }
}

// Typical use: a forked child sends its frozen memory in large runs while the parent changes it.
TEST_P(FeedOver, ForkedChildSendsItsMemory)
{
    constexpr size_t size = 24 << 20;
    auto *memory = static_cast<uint8_t *>(
        mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    ASSERT_NE(memory, MAP_FAILED);
    std::mt19937_64 r(3);
    for (size_t i = 0; i < size; i += kPageSize)
        store_le(memory + i, uint64_t(r()));
    std::vector<uint8_t> frozen(memory, memory + size);
    Scratch dir;
    auto [in, out] = make_wire(GetParam());
    pid_t child = fork();
    if (child == 0) {
        uint8_t scratch[4096];
        Feed feed(out.get());
        feed.begin();
        feed.record(Process{.pid = 412, .comm = "frozen"}, scratch);
        feed.pages(0, 1000, memory, size / kPageSize);
        _exit(feed.end() == 0 ? 0 : 1);
    }
    out.reset();
    memset(memory, 0xee, size);
    auto done = receive(in.get(), dir / "image");
    ASSERT_TRUE(done) << done.error().text();
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
    auto image = Image::open(dir / "image", {.access = Access::map});
    ASSERT_TRUE(image) << image.error().text();
    std::vector<uint8_t> got(size);
    ASSERT_TRUE((*image)->read_pages(0, 1000, got));
    EXPECT_TRUE(got == frozen);
    size_t processes = 0;
    ASSERT_TRUE((*image)->for_each<Process>([&](const Process &p) {
        processes++;
        EXPECT_EQ(p.comm, "frozen");
    }));
    EXPECT_EQ(processes, 1u);
    munmap(memory, size);
}

INSTANTIATE_TEST_SUITE_P(Wires, FeedOver, testing::Values(Wire::pipe, Wire::socket),
                         [](const auto &wire) {
                             return wire.param == Wire::pipe ? "pipe" : "socket";
                         });

std::vector<uint8_t> recorded_feed(const Model &model)
{
    auto [in, out] = make_wire(Wire::socket);
    std::vector<uint8_t> bytes;
    std::thread reader([&, fd = in.get()] {
        uint8_t piece[65536];
        ssize_t n;
        while ((n = read(fd, piece, sizeof piece)) > 0)
            bytes.insert(bytes.end(), piece, piece + n);
    });
    Feed feed(out.get());
    send(feed, model);
    feed.end();
    out.reset();
    reader.join();
    return bytes;
}

Result<Committed> replay(const std::string &scratch, Bytes bytes, const std::string &path)
{
    spew(scratch, bytes);
    Fd in(open(scratch.c_str(), O_RDONLY | O_CLOEXEC));
    return receive(in.get(), path);
}

Model tiny()
{
    Model m;
    m.records.push_back({.type = RecordType(1000), .payload = {1, 2, 3}});
    m.pages[{0, 5}].fill(1);
    m.pages[{0, 6}] = {};
    m.pages[{0, 7}].fill(2);
    return m;
}

TEST(FeedReader, CutOffAnywhereMakesNoImage)
{
    Scratch dir;
    std::vector<uint8_t> whole = recorded_feed(tiny());
    ASSERT_TRUE(replay(dir / "feed", whole, dir / "image"));
    std::filesystem::remove(dir / "image");
    for (size_t size = 0; size < whole.size(); size++) {
        auto done = replay(dir / "feed", Bytes(whole).first(size), dir / "image");
        ASSERT_FALSE(done) << size;
        ASSERT_EQ(done.error().code(), ECANCELED) << size;
        ASSERT_NE(done.error().text().find("process 412"), std::string::npos);
        ASSERT_FALSE(std::filesystem::exists(dir / "image")) << size;
    }
}

// Frames that are lost, duplicated or changed are noticed, whatever the change.
TEST(FeedReader, GarbledFramesMakeNoImage)
{
    Scratch dir;
    std::vector<uint8_t> whole = recorded_feed(tiny());
    std::mt19937_64 r(8);
    std::vector<size_t> frames;
    for (size_t at = 0; at < whole.size();) {
        frames.push_back(at);
        Frame f;
        ASSERT_TRUE(f.decode(Bytes(whole).subspan(at).first<kFeedFrame>()));
        at += kFeedFrame + (f.kind == FrameKind::record  ? f.c
                            : f.kind == FrameKind::pages ? f.c * kPageSize
                                                         : 0);
    }
    for (size_t i = 0; i + 1 < frames.size(); i++) { // without this frame
        std::vector<uint8_t> less(whole.begin(), whole.begin() + long(frames[i]));
        less.insert(less.end(), whole.begin() + long(frames[i + 1]), whole.end());
        EXPECT_FALSE(replay(dir / "feed", less, dir / "image")) << i;
    }
    for (size_t frame : frames) {
        for (size_t at : {0, 4, 8, 24}) { // magic, kind, sequence, and huge counts
            std::vector<uint8_t> changed = whole;
            if (at < 24)
                changed[frame + at] ^= uint8_t(1 + r() % 255);
            else
                store_le(changed.data() + frame + at, ~uint64_t(0) >> r() % 40);
            Frame f;
            (void)f.decode(Bytes(whole).subspan(frame).first<kFeedFrame>());
            if (at == 24 && f.kind == FrameKind::hello) // hello has no count at that offset
                continue;
            EXPECT_FALSE(replay(dir / "feed", changed, dir / "image")) << frame << "+" << at;
        }
    }
    EXPECT_FALSE(std::filesystem::exists(dir / "image"));
}

TEST(FeedReader, RepeatsWhyTheOtherSideGaveUp)
{
    Scratch dir;
    auto [in, out] = make_wire(Wire::pipe);
    Feed feed(out.get());
    feed.begin();
    feed.fail(EBUSY, "fd 5 is an open connection to [::1]:80; use --sockets=close");
    auto done = receive(in.get(), dir / "image");
    ASSERT_FALSE(done);
    EXPECT_EQ(done.error().code(), EBUSY);
    EXPECT_NE(done.error().text().find("fd 5 is an open connection"), std::string::npos);
}

TEST(Feed, KeepsItsFirstError)
{
    auto [in, out] = make_wire(Wire::socket);
    in.reset();
    Feed feed(out.get());
    EXPECT_EQ(feed.begin(), -EPIPE); // and no SIGPIPE
    EXPECT_EQ(feed.end(), -EPIPE);

    auto [in2, out2] = make_wire(Wire::pipe);
    Feed other(out2.get());
    uint8_t scratch[8];
    EXPECT_EQ(other.record(Rlimit{.resource = 1}, scratch), -E2BIG);
    EXPECT_EQ(other.end(), -E2BIG);
    Feed third(out2.get());
    third.begin();
    EXPECT_EQ(third.pages(0, 0, nullptr, 1), -EFAULT);
}

// Code that runs in a stopped process may call no libc function that could lock or allocate.
TEST(Feed, CallsNothingThatIsNotAsyncSignalSafe)
{
    const std::set<std::string> allowed = {"memcpy", "memmove", "memset", "memcmp",
                                           "_GLOBAL_OFFSET_TABLE_"};
    std::string command = std::string(NM) + " -u -P " FEED_ARCHIVE;
    FILE *nm = popen(command.c_str(), "r");
    ASSERT_TRUE(nm);
    char line[1024];
    size_t objects = 0;
    while (fgets(line, sizeof line, nm)) {
        std::string text = line;
        if (text.find(".o]:") != std::string::npos) {
            objects++;
            continue;
        }
        std::string symbol = text.substr(0, text.find(' '));
        EXPECT_TRUE(allowed.contains(symbol)) << symbol;
    }
    EXPECT_EQ(pclose(nm), 0);
    EXPECT_GE(objects, 1u) << "nm printed something unexpected";
}

} // namespace
} // namespace cryo::image
