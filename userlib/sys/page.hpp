// SPDX-License-Identifier: Apache-2.0
//
// The size of an ordinary page of memory. Cryo runs on x86-64 only, where it is a constant; huge
// pages are multiples of it, and a page of an image has this size, too.
#pragma once

#include <cstddef>

namespace cryo::sys {

inline constexpr size_t page_size = 4096;

} // namespace cryo::sys
