// SPDX-License-Identifier: Apache-2.0
//
// An error on its way from one command to another, as --json has it, too:
// {"code": 95, "text": "...", "reason": "not-enterable", "remark": "tried 3 times"}
//
//     print({{"error", error_json(error)}});
//     return error_from(said.at("error"));
#pragma once

#include "base/result.hpp"

#include <nlohmann/json.hpp>

namespace cryo::cli {

// Without `reason` or `remark` where there is none.
nlohmann::ordered_json error_json(const Error &error);
// Of an object.
Error error_from(const nlohmann::json &said);

} // namespace cryo::cli
