// SPDX-License-Identifier: Apache-2.0
//
// The whole of a file as text. An input stream would throw if a read fails in its buffer, or would
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
