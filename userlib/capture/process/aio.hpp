// SPDX-License-Identifier: Apache-2.0
//
// Contexts of asynchronous I/O (io_setup, libaio) of a stopped program. They can be saved while no
// request is under way, which only their process can find out (agent/aio.cpp).
//
//     if (Result<void> looked = look_at_aio(d, session); !looked) // after look_at_memory's
//     mappings
//         return looked;
#pragma once

#include "capture/process/describe.hpp"

namespace cryo::capture {

// Fills d.aio_contexts. Must come before anything is read that the end of a request changes, such
// as the value of an eventfd.
Result<void> look_at_aio(Description &d, AgentSession &session);

} // namespace cryo::capture
