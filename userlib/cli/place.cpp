// SPDX-License-Identifier: Apache-2.0
#include "cli/place.hpp"

#include "sys/own_variable.hpp"

#include <climits>
#include <cstdlib>
#include <unistd.h>

namespace cryo::cli {

std::string library(std::string_view name)
{
    if (const char *directory = sys::own_variable("CRYO_LIBDIR"))
        return std::string(directory) + "/" + std::string(name);
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
    std::string directory(self, n > 0 ? static_cast<size_t>(n) : 0);
    directory.resize(directory.rfind('/') == std::string::npos ? 0 : directory.rfind('/'));
    const std::string found = directory + "/" CRYO_LIB_FROM_BIN "/" + std::string(name);
    char whole[PATH_MAX];
    return realpath(found.c_str(), whole) != nullptr ? whole : found;
}

} // namespace cryo::cli
