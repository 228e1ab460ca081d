// SPDX-License-Identifier: Apache-2.0
//
// Raises the soft limit while the agent opens a descriptor, if the program is at that limit:
//
//     long fd = sys::call(SYS_openat, …);
//     if (fd == -EMFILE) {
//         const Room room;
//         fd = sys::call(SYS_openat, …);
//     }
//
// or, in short, with_room([] { return sys::call(SYS_openat, …); }). What was opened stays open
// after the program's limit is restored. Beyond the hard limit there is no room.
#pragma once

#include "sys/raw.hpp"

#include <cerrno>
#include <sys/resource.h>

namespace cryo::agent {

class Room
{
  public:
    Room()
    {
        if (sys::failed(sys::call(SYS_prlimit64, 0, RLIMIT_NOFILE, nullptr, &before_)) ||
            before_.rlim_cur == before_.rlim_max)
            return;
        const rlimit most = {before_.rlim_max, before_.rlim_max};
        raised_ = !sys::failed(sys::call(SYS_prlimit64, 0, RLIMIT_NOFILE, &most, nullptr));
    }
    ~Room()
    {
        if (raised_)
            sys::call(SYS_prlimit64, 0, RLIMIT_NOFILE, &before_, nullptr);
    }
    Room(const Room &) = delete;
    Room &operator=(const Room &) = delete;

  private:
    rlimit before_ = {};
    bool raised_ = false;
};

template <class Open>
long with_room(const Open &open)
{
    const long fd = open();
    if (fd != -EMFILE)
        return fd;
    const Room room;
    return open();
}

} // namespace cryo::agent
