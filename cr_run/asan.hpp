// SPDX-License-Identifier: Apache-2.0
//
// Lets AddressSanitizer be a library of the program behind Cryo's, by ASAN_OPTIONS, unless the user
// has said how that is to be. The environment of other programs stays as it is.
#pragma once

#include <string>
#include <vector>

// `preloaded`: what LD_PRELOAD says.
void allow_asan_behind_us(const std::vector<std::string> &programs, const std::string &preloaded);
