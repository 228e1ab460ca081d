// SPDX-License-Identifier: Apache-2.0
//
// A server of images in a thread of its own, and its clients.
//
//     class Topic : public Serving {};
//     TEST_F(Topic, Works) { serve({}); auto client = connect(); ... }
#pragma once

#include "../scratch.hpp"
#include "image/checksum.hpp"
#include "server/client.hpp"
#include "server/server.hpp"

#include <gtest/gtest.h>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <thread>

namespace cryo::server {

class Serving : public testing::Test
{
  public:
    static std::string checksum_of(const std::string &text)
    {
        return image::checksum128({reinterpret_cast<const uint8_t *>(text.data()), text.size()})
            .hex();
    }

  protected:
    Serving() { umask(0077); }
    ~Serving() override { end(); }

    void serve(ServerOptions options = {})
    {
        options.directory = dir_ / "images";
        options.listen = {.host = "127.0.0.1", .port = 0};
        Result<std::unique_ptr<Server>> server = Server::open(options, secret());
        ASSERT_TRUE(server) << server.error().text();
        server_ = std::move(*server);
        over_ = Fd(eventfd(0, EFD_CLOEXEC));
        server_->loop().watch(over_.get(), POLLIN, [this](short) { server_->loop().stop(); });
        thread_ = std::thread([this] { server_->work(); });
    }
    // As if it were killed: nothing is completed, except what is on its way to the disk.
    void end()
    {
        if (!thread_.joinable())
            return;
        eventfd_write(over_.get(), 1);
        thread_.join();
        server_.reset();
    }
    HostAndPort address() const { return server_->address(); }
    static std::string secret() { return std::string(64, 'a'); }

    Result<Client> try_to_connect(const std::string &key,
                                  Client::Patience patience = Client::usual_patience)
    {
        return Client::connect(address(), key, "store/n1", patience);
    }
    Client connect()
    {
        Result<Client> client = try_to_connect(secret());
        if (!client)
            throw std::runtime_error(client.error().text());
        return std::move(*client);
    }

    static Fd file_of(const std::string &text)
    {
        Fd fd(memfd_create("image", MFD_CLOEXEC));
        EXPECT_EQ(static_cast<ssize_t>(text.size()), pwrite(fd.get(), text.data(), text.size(), 0));
        return fd;
    }
    static std::string text_in(const Fd &fd)
    {
        struct stat status = {};
        fstat(fd.get(), &status);
        std::string text(static_cast<size_t>(status.st_size), '\0');
        EXPECT_EQ(status.st_size, pread(fd.get(), text.data(), text.size(), 0));
        return text;
    }
    // 0, or why not.
    static int put(Client &client, const ImageName &name, const std::string &text,
                   Existing existing = Existing::refuse)
    {
        const Result<StoredImage> kept =
            client.put(name, file_of(text).get(), {.existing = existing});
        return kept ? 0 : kept.error().code();
    }
    static std::string get(Client &client, const ImageName &name)
    {
        const Fd fd = file_of("");
        const Result<StoredImage> got = client.get(name, fd.get(), {});
        return got ? text_in(fd) : got.error().text();
    }
    // Names of files in the server's directory, besides its lock.
    std::vector<std::string> files() const
    {
        std::vector<std::string> names;
        for (const auto &entry : std::filesystem::directory_iterator(dir_ / "images")) {
            if (entry.path().filename() != ".lock")
                names.push_back(entry.path().filename());
        }
        return names;
    }

    Scratch dir_;
    std::unique_ptr<Server> server_;

  private:
    Fd over_;
    std::thread thread_;
};

// Of several pieces, the last of which is not whole.
inline std::string long_text()
{
    std::string text;
    for (uint64_t i = 0; text.size() < size_t(9) << 20; i++)
        text += std::to_string(i * 0x9E3779B97F4A7C15ULL);
    return text;
}

} // namespace cryo::server
