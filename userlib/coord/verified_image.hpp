// SPDX-License-Identifier: Apache-2.0
//
// Verifies an image of whose file nobody has a checksum.
//
//     if (Result<void> good = verify_image(rank, "cryo_context.412"); !good) ...
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"

#include <string>

namespace cryo::coord {

// Whether it is whole by the checksums that are in it, with those that it is based on.
Result<void> verify_image(const Directory &directory, const std::string &name);

} // namespace cryo::coord
