// SPDX-License-Identifier: Apache-2.0
//
// Paths, by functions that do not throw.
#pragma once

#include <filesystem>
#include <string>

namespace cryo {

// As it is where the working directory cannot be told.
inline std::string absolute_path(const std::string &path)
{
    std::error_code failed;
    const std::filesystem::path whole = std::filesystem::absolute(path, failed);
    return failed ? path : whole.lexically_normal().string();
}

} // namespace cryo
