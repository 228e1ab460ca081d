// SPDX-License-Identifier: Apache-2.0
//
// How a daemon reaches what is not its own: the daemon above it in the tree, and the processes that
// take images. A simulation of a large job has others (tests/unit/coord/large_job.hpp).
//
//     Daemon daemon(loop, job, node, report);                  // the usual ones
//     Daemon daemon(loop, job, node, report, {.to_parent = ..., .imager = ...});
#pragma once

#include "coord/channel.hpp"
#include "coord/imager.hpp"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cryo::coord {

struct ParentAt {
    std::vector<std::string> addresses;
    uint16_t port = 0;
    Key key = {};         // shared with it, and with no other daemon
    std::string identity; // by which it knows the one that connects
};

Result<std::shared_ptr<Channel>> connect_to_parent(Loop &loop, const ParentAt &parent);
std::unique_ptr<Imager> process_for_image(Loop &loop);

struct Ways {
    std::function<Result<std::shared_ptr<Channel>>(Loop &, const ParentAt &)> to_parent =
        connect_to_parent;
    std::function<std::unique_ptr<Imager>(Loop &)> imager = process_for_image;
};

} // namespace cryo::coord
