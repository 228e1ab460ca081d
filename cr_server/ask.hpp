// SPDX-License-Identifier: Apache-2.0
//
// What cr_server asks of another server: which images it has, and to remove one.
//
//     if (Result<void> listed = list("cryo://n7/solver/", key_file); !listed) ...
#pragma once

#include "base/result.hpp"

#include <string>

// On standard output: of a series, or all.
cryo::Result<void> list(const std::string &url, const std::string &key_file);
cryo::Result<void> remove(const std::string &url, const std::string &key_file);
