// SPDX-License-Identifier: Apache-2.0
#include "coord/ways.hpp"

#include "coord/net.hpp"

#include <utility>

namespace cryo::coord {

Result<std::shared_ptr<Channel>> connect_to_parent(Loop &loop, const ParentAt &parent)
{
    Result<Fd> fd = connect_tcp(parent.addresses, parent.port);
    if (!fd)
        return fd.error();
    return Channel::make(loop, std::move(*fd), std::make_unique<Tls>(parent.identity, parent.key));
}

std::unique_ptr<Imager> process_for_image(Loop &loop)
{
    return std::make_unique<Imager>(loop);
}

} // namespace cryo::coord
