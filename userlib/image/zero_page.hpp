// SPDX-License-Identifier: Apache-2.0
//
// Pages of zeros, which need no place in an image.
//
//     if (is_zero_page(page))
//         extent.kind = ExtentKind::zero;
#pragma once

#include <cstdint>
#include <cstring>

#include "image/format.hpp"

namespace cryo::image {

inline bool is_zero_page(const uint8_t *page)
{
    // The page equals itself shifted by one byte, and its first byte is zero.
    return page[0] == 0 && memcmp(page, page + 1, kPageSize - 1) == 0;
}

} // namespace cryo::image
