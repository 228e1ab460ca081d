// SPDX-License-Identifier: Apache-2.0
//
// Answers HTTP requests for pages that are read only, by libmicrohttpd, in the caller's thread. A
// connection has one request and a limit of time, whatever its client does; of too many connections
// the oldest is closed, so that clients that are silent keep nobody else from being answered.
//
//     Result<Server> server = Server::listen("127.0.0.1:9464", {{"/metrics", {type, page}}});
//     for (;;) {
//         pollfd ready = {server->fd(), POLLIN, 0};
//         poll(&ready, 1, server->patience_ms());
//         server->serve();
//     }
#pragma once

#include "base/result.hpp"

#include <functional>
#include <map>
#include <memory>
#include <string>

namespace cryo::metrics {

struct Page {
    std::string type;                  // as in Content-Type
    std::function<std::string()> text; // is asked for once a second at most
};

class Server
{
  public:
    // `address`: 127.0.0.1:9464, [::1]:9464, a name instead of the address; port 0 is any free one.
    static Result<Server> listen(const std::string &address, std::map<std::string, Page> pages);

    Server(Server &&) noexcept;
    Server &operator=(Server &&) noexcept;
    ~Server();

    const std::string &address() const; // with the number of the port
    bool is_local() const;              // only this machine reaches it
    int fd() const;                     // readable: serve() has something to do
    int patience_ms() const;            // serve() has something to do after that, at the latest
    void serve();

  private:
    struct Running;
    explicit Server(std::unique_ptr<Running> running);

    std::unique_ptr<Running> running_;
};

} // namespace cryo::metrics
