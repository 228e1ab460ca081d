// SPDX-License-Identifier: Apache-2.0
// A server of images and its clients, as they are meant to be.
#include "serving.hpp"

#include "coord/frame.hpp"

#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fstream>
#include <sys/socket.h>

namespace cryo::server {

namespace {

class ServerTest : public Serving
{};

} // namespace

TEST_F(ServerTest, GivesBackWhatItWasGiven)
{
    serve();
    Client client = connect();
    const std::string text = long_text();
    uint64_t told = 0;
    const auto progress = [&](uint64_t done, uint64_t total) {
        EXPECT_LT(told, done);
        EXPECT_EQ(text.size(), total);
        told = done;
    };
    const Result<StoredImage> kept =
        client.put({"s", "a"}, file_of(text).get(), {.progress = progress});
    ASSERT_TRUE(kept) << kept.error().text();
    EXPECT_EQ(text.size(), told);
    EXPECT_EQ(checksum_of(text), kept->checksum);
    told = 0;
    const Fd fd = file_of("");
    const Result<StoredImage> got = client.get({"s", "a"}, fd.get(), progress);
    ASSERT_TRUE(got) << got.error().text();
    EXPECT_EQ(text.size(), told);
    EXPECT_TRUE(text == text_in(fd));
    EXPECT_EQ(0, put(client, {"s", "empty"}, ""));
    EXPECT_EQ("", get(client, {"s", "empty"}));
}

TEST_F(ServerTest, KeepsImagesOverItsEnd)
{
    serve();
    {
        Client client = connect();
        ASSERT_EQ(0, put(client, {"", "a"}, "one"));
    }
    end();
    serve();
    Client client = connect();
    EXPECT_EQ("one", get(client, {"", "a"}));
}

// The address is told before the server works.
TEST_F(ServerTest, IsEndedByASignalThatComesBeforeItWorks)
{
    ServerOptions options;
    options.directory = dir_ / "images";
    options.listen.port = 0;
    Result<std::unique_ptr<Server>> server = Server::open(options, secret());
    ASSERT_TRUE(server) << server.error().text();
    ASSERT_TRUE((*server)->end_at_signals());
    ASSERT_EQ(0, raise(SIGTERM));
    (*server)->work();
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGTERM);
    constexpr timespec at_once = {};
    EXPECT_EQ(SIGTERM, sigtimedwait(&ending, nullptr, &at_once));
    sigaddset(&ending, SIGINT);
    sigprocmask(SIG_UNBLOCK, &ending, nullptr);
}

TEST_F(ServerTest, GivesPartsOfAnImage)
{
    serve();
    Client client = connect();
    const std::string text = long_text();
    ASSERT_EQ(0, put(client, {"", "a"}, text));
    ASSERT_TRUE(client.find({"", "a"}));
    EXPECT_EQ(text.substr(100'000, 4096), *client.read(100'000, 4096));
    EXPECT_EQ(text.substr(text.size() - 1), *client.read(text.size() - 1, 1));
    EXPECT_EQ("", *client.read(text.size(), 0));
    EXPECT_EQ(EINVAL, client.read(text.size(), 1).error().code());
    EXPECT_EQ(EINVAL, client.read(uint64_t(1) << 60, 1).error().code());
    EXPECT_EQ(ENOENT, client.find({"", "b"}).error().code());
    EXPECT_EQ(EINVAL, client.read(0, 1).error().code()); // nothing is open any more
}

TEST_F(ServerTest, ReplacesOnlyWhenAsked)
{
    serve();
    Client client = connect();
    ASSERT_EQ(0, put(client, {"", "a"}, "one"));
    EXPECT_EQ(EEXIST, put(client, {"", "a"}, "two"));
    EXPECT_EQ(0, put(client, {"", "a"}, "one")); // of one that was killed before it heard of it
    EXPECT_EQ(0, put(client, {"", "a"}, "three", Existing::replace));
    EXPECT_EQ("three", get(client, {"", "a"}));
    EXPECT_EQ(1U, files().size());
}

TEST_F(ServerTest, AReaderHasTheImageThatItHasFound)
{
    serve();
    Client reader = connect();
    Client writer = connect();
    ASSERT_EQ(0, put(writer, {"", "a"}, "one"));
    ASSERT_TRUE(reader.find({"", "a"}));
    ASSERT_EQ(0, put(writer, {"", "a"}, "two", Existing::replace));
    EXPECT_EQ("one", *reader.read(0, 3));
    ASSERT_TRUE(writer.remove({"", "a"}, checksum_of("two")));
    EXPECT_EQ("one", *reader.read(0, 3));
    EXPECT_EQ(ENOENT, reader.find({"", "a"}).error().code());
}

TEST_F(ServerTest, ListsMoreImagesThanOneMessageHas)
{
    constexpr size_t most = coord::most_listed + 40;
    ASSERT_EQ(0, mkdir((dir_ / "images").c_str(), 0700));
    const auto write = [this](const ImageName &image, uint64_t number, const std::string &text) {
        const StoredImage stored = {
            .image = image, .number = number, .checksum = checksum_of(text)};
        std::ofstream(dir_ / "images" + "/" + stored.file()) << text;
    };
    for (size_t i = 0; i < most; i++)
        write({i % 2 == 0 ? "even" : "odd", "a" + std::to_string(i)}, i + 1, "x");
    write({"", "alone"}, most + 1, "xyz");
    serve({.quota = 5000});
    Client client = connect();
    const Result<Listing> all = client.list("");
    ASSERT_TRUE(all) << all.error().text();
    EXPECT_EQ(most + 1, all->images.size());
    EXPECT_EQ("alone", all->images.front().image.text());
    EXPECT_EQ(most + 3, all->used);
    EXPECT_EQ(5000U, all->quota);
    EXPECT_EQ(most / 2, client.list("odd")->images.size());
    EXPECT_EQ(most / 2, client.list("even")->images.size());
    EXPECT_TRUE(client.list("none")->images.empty());
}

TEST_F(ServerTest, KeepsItsQuotaAndSaysSo)
{
    serve({.quota = 10});
    Client client = connect();
    ASSERT_EQ(0, put(client, {"", "a"}, "12345678"));
    const Result<StoredImage> kept = client.put({"", "b"}, file_of("123").get(), {});
    ASSERT_FALSE(kept);
    EXPECT_EQ(EDQUOT, kept.error().code());
    EXPECT_NE(std::string::npos, kept.error().text().find("quota is 10 bytes, of which 8"))
        << kept.error().text();
    EXPECT_EQ(0, put(client, {"", "b"}, "12")); // by the same connection
    EXPECT_EQ(ESTALE, client.remove({"", "a"}, checksum_of("x")).error().code());
    ASSERT_TRUE(client.remove({"", "a"}, checksum_of("12345678")));
    EXPECT_EQ(0, put(client, {"", "c"}, "12345678"));
}

TEST_F(ServerTest, HasADamagedImageNamed)
{
    serve();
    Client client = connect();
    const std::string text = long_text();
    ASSERT_EQ(0, put(client, {"", "a"}, text));
    const std::string file = dir_ / "images" + "/" + files().front();
    ASSERT_EQ(0, chmod(file.c_str(), 0600));
    const Fd fd(open(file.c_str(), O_WRONLY | O_CLOEXEC));
    ASSERT_EQ(1, pwrite(fd.get(), "x", 1, 500'000));
    const Result<StoredImage> got = client.get({"", "a"}, file_of("").get(), {});
    ASSERT_FALSE(got);
    EXPECT_EQ(EBADMSG, got.error().code());
}

TEST_F(ServerTest, TakesNobodyWithoutTheKey)
{
    serve();
    const Result<Client> client = try_to_connect(std::string(64, 'b'));
    ASSERT_FALSE(client);
    EXPECT_EQ(EACCES, client.error().code());
    const Result<Client> other =
        Client::connect(address(), secret(), "join/n1", Client::usual_patience);
    ASSERT_FALSE(other);
    EXPECT_EQ(EACCES, other.error().code());
}

TEST_F(ServerTest, HasSoManyClientsAndNoMore)
{
    serve({.most_clients = 2});
    Client one = connect();
    Client two = connect();
    Client three = connect();
    EXPECT_EQ(EBUSY, put(three, {"", "a"}, "x"));
    EXPECT_EQ(0, put(one, {"", "a"}, "x"));
    EXPECT_EQ(0, put(two, {"", "b"}, "x"));
}

TEST_F(ServerTest, AServerThatEndsMidwayIsNamedAndHasNothingHalf)
{
    serve();
    Client client = connect();
    const std::string text = long_text();
    const auto end_server = [&](uint64_t, uint64_t) { end(); };
    const Result<StoredImage> kept =
        client.put({"", "a"}, file_of(text).get(), {.progress = end_server});
    ASSERT_FALSE(kept);
    EXPECT_EQ(ECONNRESET, kept.error().code());
    serve();
    EXPECT_TRUE(files().empty());
}

TEST_F(ServerTest, NobodyWaitsForAServerThatSaysNothing)
{
    serve(); // for nothing but its address
    const Result<coord::Listening> silent = coord::keep_port("127.0.0.1");
    ASSERT_TRUE(silent);
    ASSERT_TRUE(silent->listen());
    const Result<Client> client =
        Client::connect({.host = "127.0.0.1", .port = silent->port}, secret(), "store/n1",
                        std::chrono::milliseconds(50));
    ASSERT_FALSE(client);
    EXPECT_EQ(ETIMEDOUT, client.error().code());
    end();
    const Result<Client> none =
        Client::connect({.host = "127.0.0.1", .port = 1}, secret(), "store/n1");
    ASSERT_FALSE(none);
    EXPECT_EQ(ECONNREFUSED, none.error().code());
}

TEST_F(ServerTest, AFileThatChangesWhileItIsSentIsNoImage)
{
    serve();
    Client client = connect();
    const Fd fd = file_of(long_text());
    const Result<StoredImage> kept = client.put(
        {"", "a"}, fd.get(),
        {.progress = [&](uint64_t, uint64_t) { ASSERT_EQ(0, ftruncate(fd.get(), 100)); }});
    ASSERT_FALSE(kept);
    EXPECT_EQ(ESTALE, kept.error().code());
}

} // namespace cryo::server
