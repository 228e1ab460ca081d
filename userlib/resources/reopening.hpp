// SPDX-License-Identifier: Apache-2.0
//
// Opens a file again with the flags that an open file had.
//
//     Result<Fd> again = open_again(queue, open_file.flags, "the queue");
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <cstdint>
#include <fcntl.h>
#include <string_view>

namespace cryo::resources {

// Flags that say how a file was to be made, or that are set later, not how it is opened.
constexpr uint32_t creation_flags =
    O_CREAT | O_EXCL | O_TRUNC | O_NOCTTY | (O_TMPFILE & ~O_DIRECTORY) | O_ASYNC;

// Opens the file behind `fd` again, as an open file of its own.
Result<Fd> open_again(int fd, uint32_t flags, std::string_view what);
// Sets flags that open(2) was not given, or does not accept.
Result<void> set_flags(int fd, uint32_t flags, std::string_view what);

} // namespace cryo::resources
