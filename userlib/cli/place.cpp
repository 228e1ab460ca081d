// SPDX-License-Identifier: Apache-2.0
#include "cli/place.hpp"

#include "sys/own_variable.hpp"

#include <climits>
#include <cstdlib>
#include <unistd.h>

namespace cryo::cli {

namespace {

// The command's directory with a slash at its end, or empty.
std::string own_directory()
{
    char self[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", self, sizeof(self));
    const std::string path(self, n > 0 ? static_cast<size_t>(n) : 0);
    return path.substr(0, path.rfind('/') + 1);
}

} // namespace

std::string command(std::string_view name)
{
    return own_directory() + std::string(name);
}

std::string library(std::string_view name)
{
    if (const char *directory = sys::own_variable("CRYO_LIBDIR"))
        return std::string(directory) + "/" + std::string(name);
    const std::string found = own_directory() + CRYO_LIB_FROM_BIN "/" + std::string(name);
    char whole[PATH_MAX];
    return realpath(found.c_str(), whole) != nullptr ? whole : found;
}

} // namespace cryo::cli
