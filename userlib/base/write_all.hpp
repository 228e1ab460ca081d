// SPDX-License-Identifier: Apache-2.0
//
// write(2) until all is written, in however many parts, and whatever signals come. An error names
// what was written to: "/data/image.412: No space left on device".
//
//     if (Result<void> done = write_all(fd, path, bytes); !done)
//         return done.error();
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <span>
#include <string_view>

namespace cryo {

Result<void> write_all(int fd, std::string_view name, std::span<const uint8_t> bytes);
Result<void> write_all(int fd, std::string_view name, std::string_view text);

} // namespace cryo
