// SPDX-License-Identifier: Apache-2.0
// The names of UNIX sockets in a rehearsal.
#include "resources/socket/socket_name.hpp"
#include "restore/saved.hpp"

#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace cryo::restore {

using resources::SocketName;
using resources::without_file;

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
    for (auto &[id, socket] : saved.sockets()) {
        // Several sockets may have been bound to one name before their files were renamed: their
        // present names distinguish them.
        const auto more = saved.of<image::SocketMore>().find(id);
        if (more != saved.of<image::SocketMore>().end() && more->second.file_removed)
            continue; // it is made elsewhere (sockets_apart.hpp)
        const SocketName old(socket.local);
        const Result<SocketName> now =
            old.beside(more == saved.of<image::SocketMore>().end() ? std::string_view()
                                                                   : more->second.file_name);
        change(socket.local);
        if (now)
            socket.local = saved.payloads.emplace_back(without_file(
                image::Bytes(reinterpret_cast<const uint8_t *>(&now->storage), now->size)));
    }
    for (auto &[id, senders] : saved.of<image::Senders>()) {
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
    for (auto &[id, socket] : saved.sockets()) {
        if (taken.contains({socket.peer.begin(), socket.peer.end()}))
            change(socket.peer);
    }
}

} // namespace cryo::restore
