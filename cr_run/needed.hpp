// SPDX-License-Identifier: Apache-2.0
//
// The libraries that a file names as needed (DT_NEEDED); none if it is not an ELF file.
#pragma once

#include <string>
#include <vector>

std::vector<std::string> needed_libraries(const std::string &path);
