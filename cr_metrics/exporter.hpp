// SPDX-License-Identifier: Apache-2.0
//
// Serves the metrics of programs and of the machine until it is told to end.
//
//     Result<Exporter> exporter = Exporter::open("127.0.0.1:9464", {"/var/lib/cryo-metrics"},
//     tell); Result<void> done = exporter->work();
#pragma once

#include "base/fd.hpp"
#include "events/listener.hpp"
#include "metrics/collector.hpp"
#include "metrics/server.hpp"
#include "metrics/tally.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cryo::metrics {

class Exporter
{
  public:
    // `tell`: is told of what is not served, and why. Privileges that the caller has serve to open
    // the port and to hear of all processes, and are gone afterwards.
    static Result<std::unique_ptr<Exporter>> open(const std::string &address,
                                                  std::vector<std::string> directories,
                                                  std::function<void(const Error &)> tell);

    const Server &server() const { return *server_; }
    // Until SIGTERM or SIGINT.
    Result<void> work();

  private:
    Exporter(std::vector<std::string> directories, std::function<void(const Error &)> tell);
    void join();
    void hear();
    std::string page();

    std::function<void(const Error &)> tell_;
    Collector collector_;
    Tally tally_;
    std::optional<EventListener> listener_;
    std::optional<Server> server_;
    Fd signals_;
};

} // namespace cryo::metrics
