// SPDX-License-Identifier: Apache-2.0
//
// Path functions that do not throw.
#pragma once

#include <filesystem>
#include <string>

namespace cryo {

// Returns the path unchanged if the working directory is unknown.
inline std::string absolute_path(const std::string &path)
{
    std::error_code failed;
    const std::filesystem::path whole = std::filesystem::absolute(path, failed);
    return failed ? path : whole.lexically_normal().string();
}

} // namespace cryo
