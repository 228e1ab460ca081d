// SPDX-License-Identifier: Apache-2.0
//
// How a message names an open file: by a descriptor that the program has of it, if it has one. It
// may be only in a message that waits in a socket (SCM_RIGHTS).
//
//     opening.notice(fmt::format("{}: it is not connected", descriptor_text(number)));
#pragma once

#include "resources/seen.hpp"

#include <fmt/format.h>
#include <string>

namespace cryo::resources {

// Of a program that is restored; below 0: it has none.
inline std::string descriptor_text(int number)
{
    return number < 0 ? "a descriptor in a message" : fmt::format("descriptor {}", number);
}

// Of one that is saved.
inline std::string descriptor_text(const Seen &seen)
{
    return seen.passed_in < 0
               ? fmt::format("descriptor {}", seen.fd)
               : fmt::format("a descriptor in a message for descriptor {}", seen.passed_in);
}

} // namespace cryo::resources
