// SPDX-License-Identifier: Apache-2.0
//
// cr_restart makes the sockets before the processes that have them. If a socket names a member as
// its peer (SO_PEERCRED), with the user and group of the restored processes, a namesake of that
// member (namesake.hpp) makes, connects or listens on it. Where no namesake is possible, the socket
// names cr_restart, and tell_peers() reports that.
#pragma once

#include "restore/connected_pair.hpp"
#include "restore/namesake.hpp"
#include "restore/plan_parts.hpp"

#include <optional>

namespace cryo::restore {

class Namesakes
{
  public:
    explicit Namesakes(const Planning &p);
    Namesakes(const Namesakes &) = delete;
    Namesakes &operator=(const Namesakes &) = delete;

    // Unnamed sockets, of which one is this one.
    Result<ConnectedPair> pair(const image::Socket &saved);
    // As listen(2), before `caller` connects: the socket names the process that called this last.
    // Nothing is done where that is the right process already, so a listening socket must have this
    // backlog already. False: errno says why.
    bool listen(const image::Socket &caller, int fd, int backlog);
    // A namesake of the process that the accepted end named: the one that had connected.
    std::optional<Namesake> caller_of(const image::Socket &accepted, const Namesake::Deed &deed);
    // Connects a socket that is not accepted yet: 0, or errno. Nobody can ask the other end whom it
    // names; that should be the first process that has this end.
    int connect(const image::Socket &caller, int fd, const SocketName &address);
    // Connections for which that process had no namesake.
    size_t unnamed_callers() const { return unnamed_callers_; }

  private:
    std::optional<pid_t> named(uint32_t open_file) const;
    std::optional<pid_t> holder_of(uint32_t open_file) const;
    std::optional<Namesake> make(pid_t who, const Namesake::Deed &deed);

    const Planning &p_;
    Ids ids_;
    std::optional<Namesake> makes_pairs_; // the last one, for pairs that come in a row
    bool none_to_be_had_ = false;
    size_t unnamed_callers_ = 0;
};

} // namespace cryo::restore
