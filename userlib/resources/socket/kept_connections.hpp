// SPDX-License-Identifier: Apache-2.0
//
// Connections that wait for a restart, until its processes may run: they are under repair, so that
// a restart that fails leaves them as they were held.
//
//     KeptConnections all;
//     all.add(std::move(duplicate), saved, record, unsent);
//     all.give_up(record.held);           // of connections that come back as closed
//     Result<void> started = all.start(); // when nothing can fail any more
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/records.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace cryo::resources {

class KeptConnections
{
  public:
    // `fd`: made by put_tcp().
    void add(Fd fd, const image::Socket &saved, const image::KeptConnection &kept,
             std::string unsent);
    void give_up(uint64_t held) { given_up_.insert(held); }
    bool empty() const { return all_.empty() && given_up_.empty(); }

    // ESTALE: the connections are not held any more; none has started.
    Result<void> start();

  private:
    struct One {
        Fd fd;
        std::vector<uint64_t> options; // what `saved` refers to
        image::Socket saved;
        image::KeptConnection kept;
        std::string unsent;
    };
    std::vector<One> all_;
    std::set<uint64_t> given_up_;
};

} // namespace cryo::resources
