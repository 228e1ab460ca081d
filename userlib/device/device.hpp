// SPDX-License-Identifier: Apache-2.0
//
// Device is /dev/cryo: user space's interface to the kernel module. Only the choice of process ids
// is elsewhere (restorer/next_id.hpp), as that code can use nothing but system calls.
//
//     Result<Device> device = Device::open();
//     if (!device)
//         return device.error(); // says whether the module is missing or out of reach
//     auto runs = device->scan(start, end, CRYO_PAGE_SOFT_DIRTY);
//
// Every call concerns the calling process. The calls named *_raw return 0 or -errno,
// allocate nothing and are async-signal-safe: they are for code that runs between stop and go.
#pragma once

#include <cstdint>
#include <linux/cryo.h>
#include <span>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"

namespace cryo {

class Device
{
  public:
    static constexpr const char *path = "/dev/cryo";

    // ReadWrite: needed to choose process ids; requires membership in the device's group.
    enum class Access { ReadOnly, ReadWrite };

    // Opens the device and queries its features.
    static Result<Device> open(Access access = Access::ReadOnly);

    const cryo_features &features() const { return features_; }
    bool has(uint64_t feature) const { return (features_.features & feature) == feature; }
    int fd() const { return fd_.get(); }

    // A command with its structure, whose size is filled in: 0 or -errno.
    template <class Command>
    int call_raw(unsigned long number, Command &command) const
    {
        command.size = sizeof(command);
        return call(fd_.get(), number, &command);
    }

    // The classes of all pages in [start, end). `want`: the CRYO_PAGE_* bits to distinguish.
    Result<std::vector<cryo_run>> scan(uint64_t start, uint64_t end, uint32_t want) const;

    // One step of a scan: fills `runs` from the front, sets `count`, and moves `start` to where the
    // next step continues. The scan is complete when `start` has reached `end`.
    int scan_raw(uint64_t &start, uint64_t end, uint32_t want, std::span<cryo_run> runs,
                 size_t &count) const;

    // The process's threads, in order of creation.
    Result<std::vector<cryo_thread>> threads() const;

    // The process's open descriptors, lowest first.
    Result<std::vector<cryo_file>> files() const;

    // Sends an event about the calling process to the listeners. The module drops an event that
    // follows others too closely (-EAGAIN); that does not make the operation fail.
    int announce_raw(const cryo_event &event) const;

  private:
    static int call(int fd, unsigned long number, void *command);

    Device(Fd fd, const cryo_features &features) : fd_(std::move(fd)), features_(features) {}

    Fd fd_;
    cryo_features features_;
};

} // namespace cryo
