// SPDX-License-Identifier: Apache-2.0
//
// say() writes a line to standard error. fatal() says why Cryo cannot go on and ends the process,
// as an MPI library does that is not usable.
//
//     say("rank %u cannot be saved", rank);
//     fatal("%s is missing", name);
//
// Both may be called in a signal handler: what is written is text and numbers without widths, which
// the C library puts together without a lock and without memory.
#pragma once

namespace cryo::mpi {

[[gnu::format(printf, 1, 2)]] void say(const char *format, ...);
[[noreturn, gnu::format(printf, 1, 2)]] void fatal(const char *format, ...);

} // namespace cryo::mpi
