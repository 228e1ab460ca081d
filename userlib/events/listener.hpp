// SPDX-License-Identifier: Apache-2.0
//
// EventListener hears what processes announce through the kernel module: a checkpoint or restart
// has started, got so far, finished, failed.
//
//     Result<EventListener> listener = EventListener::join();
//     for (;;) {
//         poll(listener->fd()) ...
//         Result<std::optional<Event>> event = listener->next();
//         if (event && *event)
//             show(**event);
//     }
//
// A plain user hears of its own processes; who may trace every process hears of all, in the
// network namespace of the listener. Kernels before 6.7 let only the administrator join.
#pragma once

#include <chrono>
#include <cstdint>
#include <linux/cryo.h>
#include <memory>
#include <optional>

#include "base/result.hpp"

struct nl_sock;

namespace cryo {

struct Event {
    uint32_t pid = 0;         // in the process's own pid namespace
    uint64_t pidns_inode = 0; // which one that is: st_ino of /proc/PID/ns/pid
    cryo_operation operation = CRYO_OP_CHECKPOINT;
    cryo_phase phase = CRYO_PHASE_STARTED;
    int error = 0; // errno of a failure
    uint64_t bytes_done = 0;
    uint64_t bytes_total = 0; // 0: not known
    uint32_t target = 0;      // whom `pid` says it saves or restores; 0: itself
};

class EventListener
{
  public:
    static Result<EventListener> join();

    EventListener(EventListener &&) noexcept;
    EventListener &operator=(EventListener &&) noexcept;
    ~EventListener();

    // Readable when an event is there.
    int fd() const;

    // The next event, or none if none came in time. Error ENOBUFS: events were lost because they
    // were not read fast enough; later ones can still be read.
    Result<std::optional<Event>> next(std::chrono::milliseconds patience = {});

  private:
    struct Socket;
    explicit EventListener(std::unique_ptr<Socket> socket);

    std::unique_ptr<Socket> socket_;
};

} // namespace cryo
