// SPDX-License-Identifier: Apache-2.0
//
// The one list of what a file can be: from it come FileKind, what cr_inspect calls a kind, and the
// table of what Cryo does with each (resources/kinds.cpp).
#pragma once

#include <cstdint>
#include <iterator>

namespace cryo::image {

// X(NAME, number, "as it is shown"): the numbers are those of the image, where none is used again;
// resources/NAME.cpp, or its neighbour, defines NAME_kind.
//
// In this order a kind is looked for, the first that recognises an open file has it; and a
// checkpoint and a restart go through them. timerfd is the last of those that a process finishes:
// its time starts then. other recognises everything.
#define CRYO_FILE_KINDS(X)                                                                         \
    X(pipe, 5, "pipe")                                                                             \
    X(fifo, 4, "fifo")                                                                             \
    X(eventfd, 9, "eventfd")                                                                       \
    X(signalfd, 10, "signalfd")                                                                    \
    X(epoll, 12, "epoll")                                                                          \
    X(inotify, 13, "inotify")                                                                      \
    X(pidfd, 19, "pidfd")                                                                          \
    X(timerfd, 11, "timerfd")                                                                      \
    X(socket, 6, "socket")                                                                         \
    X(memfd, 8, "memfd")                                                                           \
    X(symlink, 7, "symlink")                                                                       \
    X(directory, 1, "directory")                                                                   \
    X(block_device, 3, "block device")                                                             \
    X(message_queue, 18, "message queue")                                                          \
    X(pty_master, 15, "pty master")                                                                \
    X(terminal, 14, "terminal")                                                                    \
    X(char_device, 2, "char device")                                                               \
    X(regular, 0, "file")                                                                          \
    X(shared_memory, 16, "shared memory")                                                          \
    X(other, 17, "other")

#define CRYO_NUMBER(name, number, shown) name = (number),
#define CRYO_SHOWN(name, number, shown) {FileKind::name, shown},

enum class FileKind : uint32_t { CRYO_FILE_KINDS(CRYO_NUMBER) };

struct ShownKind {
    FileKind kind;
    const char *name;
};
inline constexpr ShownKind kShownKinds[] = {CRYO_FILE_KINDS(CRYO_SHOWN)};
inline constexpr uint32_t kFileKinds = std::size(kShownKinds); // all of them

#undef CRYO_SHOWN
#undef CRYO_NUMBER

} // namespace cryo::image
