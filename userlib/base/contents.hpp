// SPDX-License-Identifier: Apache-2.0
//
// Reads a whole file as text. A std::ifstream would throw if a read fails in its buffer, or would
// report an unreadable file as empty.
//
//     Result<std::string> stat = contents("/proc/412/stat");
#pragma once

#include "base/result.hpp"

#include <string>

namespace cryo {

Result<std::string> contents(const std::string &path);
Result<std::string> contents(int fd, const std::string &name); // from the current position

} // namespace cryo
