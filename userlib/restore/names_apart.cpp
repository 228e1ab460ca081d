// SPDX-License-Identifier: Apache-2.0
// The names of UNIX sockets in a rehearsal.
#include "restore/saved.hpp"
#include "restore/socket_name.hpp"

#include <utility>

namespace cryo::restore {

void keep_names_apart(Saved &saved)
{
    std::set<std::vector<uint8_t>> taken;
    const auto change = [&](image::Bytes &name) {
        const SocketName was(name);
        if (was.path() == nullptr)
            return;
        taken.emplace(name.begin(), name.end());
        name = saved.payloads.emplace_back(without_file(name));
    };
    for (auto &[id, socket] : saved.sockets)
        change(socket.local);
    for (auto &[id, senders] : saved.senders) {
        std::vector<uint8_t> names;
        size_t at = 0;
        for (size_t i = 0; i < senders.sizes.size(); i++) {
            image::Bytes one = senders.names.subspan(at, senders.sizes[i]);
            at += senders.sizes[i];
            change(one);
            names.insert(names.end(), one.begin(), one.end());
        }
        senders.names = saved.payloads.emplace_back(std::move(names));
    }
    for (auto &[id, socket] : saved.sockets) {
        if (taken.contains({socket.peer.begin(), socket.peer.end()}))
            change(socket.peer);
    }
}

} // namespace cryo::restore
