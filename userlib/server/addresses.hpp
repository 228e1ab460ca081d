// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a host, as connections want them: numbers.
//
//     Result<std::vector<std::string>> all = addresses_of({.host = "n7", .port = 12796});
#pragma once

#include "base/result.hpp"
#include "server/url.hpp"

#include <string>
#include <vector>

namespace cryo::server {

// At least one. ENOENT: no host of that name is known.
Result<std::vector<std::string>> addresses_of(const HostAndPort &at);

} // namespace cryo::server
