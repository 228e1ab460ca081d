// SPDX-License-Identifier: Apache-2.0
//
// What --version says: the release, and what this installation can do that another one may not.
//
//     cryo::print("{}\n", cli::version_text("cr_run"));
#pragma once

#include <string>
#include <string_view>

namespace cryo::cli {

std::string version_text(std::string_view command);

} // namespace cryo::cli
