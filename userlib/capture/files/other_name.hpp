// SPDX-License-Identifier: Apache-2.0
//
// Looks for another name of a file that the name it was opened or mapped by does not lead to.
//
//     const std::string other = other_name(seen);
//     if (other.empty()) ... // none in its original directory
#pragma once

#include "resources/seen.hpp"

#include <string>
#include <string_view>

namespace cryo::capture {

std::string directory_of(std::string_view path);
// Another name of the same file in its original directory: a hard link, or its new name if a rename
// is not reported by the kernel. Empty if there is none.
std::string other_name(const resources::Seen &seen);

} // namespace cryo::capture
