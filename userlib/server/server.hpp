// SPDX-License-Identifier: Apache-2.0
//
// A server of images: clients that have the key send images, and fetch them for a restart. One
// thread and one loop; only what waits for the disk at the end of an image is done aside.
//
//     Result<std::unique_ptr<Server>> server = Server::open({.directory = "/srv/images"},
//                                                                   secret);
//     Result<void> heeds = (*server)->end_at_signals(); // SIGTERM, SIGINT
//     print("{}\n", (*server)->address());
//     (*server)->work();
#pragma once

#include "base/fd.hpp"
#include "coord/aside.hpp"
#include "coord/loop.hpp"
#include "coord/net.hpp"
#include "coord/strangers.hpp"
#include "server/depot.hpp"
#include "server/session.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <string>

namespace cryo::server {

struct ServerOptions {
    std::string directory = {};
    HostAndPort listen = {.host = "127.0.0.1", .port = usual_port}; // port 0: any that is free
    uint64_t quota = 0;                                             // bytes; 0: none
    unsigned most_clients = 64;
    unsigned patience_s = 60; // with a client that says nothing
};

class Server
{
  public:
    static Result<std::unique_ptr<Server>> open(const ServerOptions &options, std::string secret);
    Server(const Server &) = delete;
    Server &operator=(const Server &) = delete;

    const HostAndPort &address() const { return options_.listen; }
    const Depot &depot() const { return *depot_; }
    // From now on SIGTERM and SIGINT end work(), also before it has begun.
    Result<void> end_at_signals();
    // Until stop().
    void work();
    coord::Loop &loop() { return loop_; }

  private:
    Server(ServerOptions options, std::string secret);
    Result<void> listen();
    void accept();
    void welcome(const std::shared_ptr<coord::Channel> &channel);
    void publish(const std::shared_ptr<IncomingImage> &image, uint64_t session);
    void look();

    ServerOptions options_;
    std::string secret_;
    Fd told_; // of signals
    coord::Loop loop_;
    std::unique_ptr<Depot> depot_;
    coord::Listening listening_;
    coord::Strangers strangers_;
    std::map<uint64_t, std::unique_ptr<Session>> sessions_;
    std::map<uint64_t, std::unique_ptr<coord::Aside>> asides_; // images that are put on the disk
    uint64_t numbers_ = 0;
    bool looking_ = false;
};

} // namespace cryo::server
