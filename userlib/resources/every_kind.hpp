// SPDX-License-Identifier: Apache-2.0
//
// The kinds by their names, for the table in kinds.cpp. Each is defined in the source of its name;
// FIFOs in that of pipes, masters in that of terminals, block and character devices in device.cpp,
// sockets and shared memory in elsewhere.cpp.
#pragma once

#include "image/file_kinds.hpp"
#include "resources/kinds.hpp"

namespace cryo::resources {

#define CRYO_KIND(name, number, shown) extern const Kind name##_kind;
CRYO_FILE_KINDS(CRYO_KIND)
#undef CRYO_KIND

} // namespace cryo::resources
