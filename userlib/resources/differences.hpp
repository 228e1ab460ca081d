// SPDX-License-Identifier: Apache-2.0
//
// Differences between what was restored and what was saved, as errors for the user.
//
//     return same_number("descriptor 5: its size", now, saved);  // "... is 7, and 8 in the image"
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace cryo::resources {

Error difference(const std::string &what);
// "the umask is 22, and 77 in the image"
Result<void> same_text(const std::string &what, std::string_view now, std::string_view saved);
Result<void> same_hex(const std::string &what, uint64_t now, uint64_t saved);
Result<void> same_number(const std::string &what, int64_t now, int64_t saved);
// Compares one line of a file such as fdinfo.
Result<void> same_line(const std::string &what, std::string_view text, const char *key, int base,
                       uint64_t saved);

} // namespace cryo::resources
