// SPDX-License-Identifier: Apache-2.0
//
// refuse() fills in a Refusal and returns false.
//
//     if (fd < 0)
//         return refuse(why, "%s: %s", path, strerror(errno));
#pragma once

#include "mpi/capsule/capsule.hpp"

namespace cryo::capsule {

[[gnu::format(printf, 2, 3)]] bool refuse(Refusal &why, const char *format, ...);

} // namespace cryo::capsule
