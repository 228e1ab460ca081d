// SPDX-License-Identifier: Apache-2.0
//
// Byte transposition of 8-byte words: first the lowest bytes of all words, then the next, … In
// arrays of floating-point numbers or pointers the upper bytes repeat, and LZ4 sees it.
//
//     shuffle8(package, scratch);     // sizes are equal and multiples of 128
//     unshuffle8(scratch, package);
#pragma once

#include "image/format.hpp"

namespace cryo::image {

void shuffle8(Bytes in, MutableBytes out);
void unshuffle8(Bytes in, MutableBytes out);

} // namespace cryo::image
