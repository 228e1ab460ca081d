// SPDX-License-Identifier: Apache-2.0
//
// EventListener receives what processes announce through the kernel module: a checkpoint or restart
// has started, made progress, finished or failed.
//
//     Result<EventListener> listener = EventListener::join();
//     for (;;) {
//         poll(listener->fd()) ...
//         Result<std::optional<Event>> event = listener->next();
//         if (event && *event)
//             show(**event);
//     }
//
// A plain user receives its own processes' events; a user that may trace every process receives all
// in the listener's network namespace. Before Linux 6.8 only the administrator may join.
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
    uint32_t pid = 0;         // in its own pid namespace
    uint64_t pidns_inode = 0; // which one that is: st_ino of /proc/PID/ns/pid
    // As numbers: a later module may announce some that these enumerations do not have.
    uint32_t operation = CRYO_OP_CHECKPOINT; // cryo_operation
    uint32_t phase = CRYO_PHASE_STARTED;     // cryo_phase
    int error = 0;                           // errno of a failure
    uint64_t bytes_done = 0;
    uint64_t bytes_total = 0; // 0: unknown
    uint32_t target = 0;      // the process that `pid` saves or restores; 0: itself
};

class EventListener
{
  public:
    static Result<EventListener> join();

    EventListener(EventListener &&) noexcept;
    EventListener &operator=(EventListener &&) noexcept;
    ~EventListener();

    // Readable when an event is available.
    int fd() const;

    // False: the module that was joined is not loaded any more, or again, and nothing will be
    // heard.
    bool is_current() const;

    // The next event, or none if none came in time. Error ENOBUFS: events were lost because they
    // were not read fast enough; later ones can still be read.
    Result<std::optional<Event>> next(std::chrono::milliseconds patience = {});

  private:
    struct Socket;
    explicit EventListener(std::unique_ptr<Socket> socket);

    std::unique_ptr<Socket> socket_;
};

} // namespace cryo
