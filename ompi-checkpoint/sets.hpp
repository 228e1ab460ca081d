// SPDX-License-Identifier: Apache-2.0
//
// What a request says of the level of sets (docs/stores.md).
//
//     Result<json> fields = sets_for("xor", "racks.toml");    // "": nothing is said
#pragma once

#include "base/result.hpp"

#include <nlohmann/json.hpp>
#include <string>

// EINVAL: there is no such scheme, or there are racks without one; or what is wrong in the file.
cryo::Result<nlohmann::json> sets_for(const std::string &redundancy, const std::string &racks);
