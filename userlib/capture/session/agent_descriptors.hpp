// SPDX-License-Identifier: Apache-2.0
//
// The part of a session that brings the stopped program's descriptors here, and what only the
// program can read at one of them.
//
//     AgentDescriptors &from = session->descriptors();
//     Result<std::vector<Fd>> ours = from.get({0, 1, 5});   // in this order
//     Result<std::string> messages = from.queue(7);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "capture/session/agent_connection.hpp"
#include "resources/saving.hpp"

#include <string>
#include <vector>

namespace cryo::capture {

class AgentDescriptors
{
  public:
    explicit AgentDescriptors(AgentConnection &connection) : connection_(&connection) {}

    // The program's own descriptors, shared with us. Close them before the program resumes: its
    // peers would not see an end of file otherwise when it closes its own.
    Result<std::vector<Fd>> get(const std::vector<int> &numbers); // ascending
    // The unread input on both ends of a pseudo-terminal, given its master.
    using TerminalContents = resources::TerminalContents;
    Result<TerminalContents> terminal(int master);
    // The messages in a POSIX message queue, which stay there; as in image/messages.hpp.
    Result<std::string> queue(int descriptor);
    // Paths that the program passed to inotify_add_watch, and what they led to then.
    using Watched = resources::WatchedPath;
    Result<std::vector<Watched>> watched();

  private:
    AgentConnection *connection_;
};

} // namespace cryo::capture
