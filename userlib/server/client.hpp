// SPDX-License-Identifier: Apache-2.0
//
// A client of a server of images (session.hpp), for a process that has nothing else to do.
//
//     Result<Client> client = Client::connect(url.at, secret, identity);
//     Result<StoredImage> kept = client->put(url.image, fd, {.existing = Existing::replace});
//     Result<StoredImage> there = client->get(url.image, fd, progress);
//
// No call waits for a server that says nothing for longer than `patience`.
#pragma once

#include "base/result.hpp"
#include "coord/channel.hpp"
#include "coord/loop.hpp"
#include "server/depot.hpp"
#include "server/url.hpp"

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cryo::server {

using Progress = std::function<void(uint64_t done, uint64_t total)>;

struct PutOptions {
    Existing existing = Existing::refuse; // what is there with the same contents is no error
    uint64_t rate = 0;                    // bytes a second; 0: no limit
    Progress progress = {};
};

struct Listing {
    std::vector<StoredImage> images = {}; // in the order of their names
    uint64_t used = 0;
    uint64_t quota = 0; // 0: none
};

class Client
{
  public:
    using Patience = std::chrono::milliseconds;
    static constexpr Patience usual_patience{60'000};

    static Result<Client> connect(const HostAndPort &at, const std::string &secret,
                                  const std::string &identity, Patience patience = usual_patience);

    // All of the file from its beginning.
    Result<StoredImage> put(const ImageName &image, int fd, const PutOptions &how);
    // Writes it into the file. EBADMSG: it is not what was sent to the server once.
    Result<StoredImage> get(const ImageName &image, int fd, const Progress &progress);
    // Of an image that stays open for read().
    Result<StoredImage> find(const ImageName &image);
    Result<std::string> read(uint64_t offset, uint64_t length); // at most coord::most_piece bytes
    Result<Listing> list(const std::string &series);            // "": all images
    // ESTALE: that image has another checksum.
    Result<void> remove(const ImageName &image, const std::string &checksum);

  private:
    struct Said {
        std::optional<coord::Message> message = {}; // or a piece
        std::string piece = {};
    };
    // What the channel tells; it has an address that stays.
    struct Heard {
        coord::Loop loop;
        std::shared_ptr<coord::Channel> channel;
        std::deque<Said> said;
        bool secure = false;
        bool ended = false;
    };

    Client(std::unique_ptr<Heard> heard, std::string server, Patience patience)
        : heard_(std::move(heard)), server_(std::move(server)), patience_(patience)
    {}
    Result<void> wait(const std::function<bool()> &until);
    Result<Said> next();
    // What has failed, if that is what was said.
    Error why_not(const Said &said) const;
    Result<coord::Message> answer(coord::Type wanted);
    Result<std::string> piece(uint64_t length);
    Result<StoredImage> stored(Result<coord::Message> kept) const;
    Result<std::string> send_all(const ImageName &image, int fd, uint64_t bytes,
                                 const PutOptions &how);
    Result<StoredImage> already(const ImageName &image, int fd, const Error &exists);

    std::unique_ptr<Heard> heard_;
    std::string server_;
    Patience patience_;
};

} // namespace cryo::server
