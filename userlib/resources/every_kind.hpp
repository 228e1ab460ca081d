// SPDX-License-Identifier: Apache-2.0
//
// The kinds by their names, for the table in kinds.cpp. Each is defined in the source of its name;
// FIFOs in that of pipes, masters in that of terminals, block and character devices in device.cpp,
// sockets in elsewhere.cpp.
#pragma once

#include "resources/kinds.hpp"

namespace cryo::resources {

extern const Kind block_device_kind;
extern const Kind char_device_kind;
extern const Kind directory_kind;
extern const Kind epoll_kind;
extern const Kind eventfd_kind;
extern const Kind fifo_kind;
extern const Kind inotify_kind;
extern const Kind memfd_kind;
extern const Kind message_queue_kind;
extern const Kind other_kind;
extern const Kind pidfd_kind;
extern const Kind pipe_kind;
extern const Kind pty_master_kind;
extern const Kind regular_kind;
extern const Kind shared_memory_kind;
extern const Kind signalfd_kind;
extern const Kind socket_kind;
extern const Kind symlink_kind;
extern const Kind terminal_kind;
extern const Kind timerfd_kind;

} // namespace cryo::resources
