// SPDX-License-Identifier: Apache-2.0
//
// Finds the process that has the other end of a pipe or of a connection, if it is outside the
// checkpoint but in the same session: a checkpoint of the session would include it.
//
//     SessionsPeers peers; // of one look at all descriptors
//     const std::string way_out = "--sockets=close brings it back as closed" +
//                                 peers.offer(412, {412, 413}, *link_of_peer(look), O_RDWR);
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <sys/types.h>
#include <unordered_map>

namespace cryo::capture {

// The descriptors of the session's processes that are left out: read once, and not beyond a limit,
// for the program is stopped meanwhile.
class SessionPeers
{
  public:
    SessionPeers(pid_t sid, const std::set<pid_t> &members);
    // Tells of cr_checkpoint --sid ("; process 414 ..."); empty: none of them is known to have such
    // a descriptor, or the session has processes that Cryo cannot save. `access`: that of the
    // member's end, O_RDWR for a socket; one that reads is at the other end from one that writes.
    std::string offer(const std::string &link, uint32_t access) const;

  private:
    pid_t sid_;
    std::unordered_map<std::string, pid_t> readers_, writers_; // of each link
};

// SessionPeers of the first few sessions that members belong to.
class SessionsPeers
{
  public:
    // For a descriptor of `member`, which is one of `members`.
    std::string offer(pid_t member, const std::set<pid_t> &members, const std::string &link,
                      uint32_t access);

  private:
    std::map<pid_t, SessionPeers> sessions_; // by number
};

} // namespace cryo::capture
