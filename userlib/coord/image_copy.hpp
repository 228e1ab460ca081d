// SPDX-License-Identifier: Apache-2.0
//
// Copies a rank's image from one level to another (docs/stores.md), with a checksum on the way.
//
//     Result<ImageCopy> made = copy_image(local, shared, "cryo_context.412", {.rate = 100 << 20});
//     metadata: made->bytes, made->checksum
#pragma once

#include "base/directory.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

namespace cryo::coord {

struct CopyOptions {
    uint64_t rate = 0; // bytes a second; 0: no limit
    bool sync = true;
};

struct ImageCopy {
    uint64_t bytes = 0;
    std::string checksum; // XXH3-128 of the whole file, as hexadecimal digits
};

// The copy has its name when it is complete; until then it is .NAME.tmp, which an error removes.
Result<ImageCopy> copy_image(const Directory &from, const Directory &to, const std::string &name,
                             const CopyOptions &how);

// The size and checksum of a file as it is now.
Result<ImageCopy> measure_image(const Directory &directory, const std::string &name);

// For reading; the error says that it is no regular file.
Result<Fd> open_image(const Directory &directory, const std::string &name);

// How long to rest after so many bytes in so much time, to be no faster than `rate`.
std::chrono::nanoseconds pause_after(uint64_t bytes, std::chrono::nanoseconds elapsed,
                                     uint64_t rate);

// How many bytes are copied at once: with a limit a copy grows every second, as daemons want it.
size_t piece_at(uint64_t rate);

// Whether a text is what ImageCopy::checksum may be.
bool is_image_checksum(std::string_view text);

} // namespace cryo::coord
