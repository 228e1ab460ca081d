// SPDX-License-Identifier: Apache-2.0
//
// The ring of a context of asynchronous I/O (io_setup), as the kernel maps it into the program: its
// address is the context's id. Finished requests leave events between head and tail. Whoever
// fetches them moves the head, which may be the program itself; the tail is the kernel's, which
// only writes it here.
#pragma once

#include "sys/page.hpp"

#include <cstdint>
#include <linux/aio_abi.h>

namespace cryo::sys {

struct AioRing {
    uint32_t number; // of the context in the process; the kernel's
    uint32_t slots;  // for events; one of them is always free
    uint32_t head, tail;
    uint32_t magic;
    uint32_t compatible, incompatible;
    uint32_t header_size;
    // Followed by io_event[slots].

    io_event *events() { return reinterpret_cast<io_event *>(this + 1); }
};
static_assert(sizeof(AioRing) == 32 && sizeof(io_event) == 32);

constexpr uint32_t aio_magic = 0xa10a10a1;

// The slots in a ring of so many bytes: the kernel fills whole pages.
constexpr uint64_t aio_slots(uint64_t bytes)
{
    return (bytes - sizeof(AioRing)) / sizeof(io_event);
}

// The smallest number for io_setup(2) that leads to a ring of so many bytes. The kernel doubles it
// and adds two, but counts it as it is against fs.aio-max-nr. A machine with many processors makes
// larger rings.
constexpr uint32_t aio_requests(uint64_t bytes)
{
    const uint64_t slots_before = (bytes - page_size) / sizeof(io_event); // in one page less
    return slots_before < 4 ? 1 : static_cast<uint32_t>(slots_before / 2 - 1);
}

} // namespace cryo::sys
