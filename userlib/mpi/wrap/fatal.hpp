// SPDX-License-Identifier: Apache-2.0
//
// fatal() says why Cryo cannot go on and ends the process, as an MPI library does that is not
// usable.
//
//     fatal("%s is missing", name);
#pragma once

namespace cryo::mpi {

[[noreturn, gnu::format(printf, 1, 2)]] void fatal(const char *format, ...);

} // namespace cryo::mpi
