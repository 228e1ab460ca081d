// SPDX-License-Identifier: Apache-2.0
//
// Sockets are made here, before the processes that have them. Those that the image says name a
// member as their peer (SO_PEERCRED) are made by a namesake of that member; where there can be
// none, they name this process, and tell_peers() says so.
#pragma once

#include "restore/connected_pair.hpp"
#include "restore/namesake.hpp"
#include "restore/plan_parts.hpp"

#include <optional>
#include <set>

namespace cryo::restore {

class Namesakes
{
  public:
    explicit Namesakes(const Planning &p);
    Namesakes(const Namesakes &) = delete;
    Namesakes &operator=(const Namesakes &) = delete;

    // Unnamed sockets, of which one is this one.
    Result<ConnectedPair> pair(const image::Socket &saved);

  private:
    std::optional<Peer> named(uint32_t open_file) const;
    std::optional<Namesake> make(const Peer &who, const Namesake::Deed &deed);

    const Planning &p_;
    Ids ids_;
    std::optional<Namesake> makes_pairs_; // the last one, for pairs that come in a row
    std::set<pid_t> not_had_;             // ids
};

} // namespace cryo::restore
