// SPDX-License-Identifier: Apache-2.0
//
// Finds text that JSON cannot hold (printable.hpp): a name in which such bytes were replaced would
// name something else.
//
//     if (const std::string *text = not_utf8(message))
//         return Error(EILSEQ, *text + ": is not UTF-8");
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cryo::cli {

// The first of the values, not of those inside them, that is a text and not UTF-8; null: none is.
const std::string *not_utf8(const nlohmann::json &values);

} // namespace cryo::cli
