// SPDX-License-Identifier: Apache-2.0
#include "resources/socket/kept_connections.hpp"

#include "resources/socket/packet_hold.hpp"
#include "resources/socket/tcp_repair.hpp"

#include <netinet/tcp.h>

namespace cryo::resources {

// The image's records may be gone when the connection starts.
void KeptConnections::add(Fd fd, const image::Socket &saved, const image::KeptConnection &kept,
                          std::string unsent)
{
    One one;
    one.fd = std::move(fd);
    for (size_t i = 0; i < saved.options.size(); i++)
        one.options.push_back(saved.options[i]);
    one.saved = saved;
    one.saved.local = one.saved.peer = {};
    one.saved.packets = {};
    one.saved.options = image::List<uint64_t>::of(one.options);
    one.kept = kept;
    one.unsent = std::move(unsent);
    all_.push_back(std::move(one));
}

// Of two restarts one removes the table: the other one stops before its connections have started.
// What is being opened may fail, and starts first.
Result<void> KeptConnections::start()
{
    std::set<uint64_t> held;
    for (const One &one : all_)
        held.insert(one.kept.held);
    for (const uint64_t number : held) {
        if (Result<void> passed = pass_packets(number); !passed)
            return passed.error().within("its connections are not held any more");
    }
    for (const uint64_t number : given_up_) {
        if (!held.contains(number))
            static_cast<void>(pass_packets(number)); // it may be gone, and then nothing is to do
    }
    for (const bool opened : {false, true}) {
        for (const One &one : all_) {
            if (opened != (one.kept.state != TCP_SYN_SENT))
                continue;
            if (Result<void> started = start_tcp(one.fd.get(), one.saved, one.kept, one.unsent);
                !started)
                return started;
        }
    }
    all_.clear();
    return {};
}

} // namespace cryo::resources
