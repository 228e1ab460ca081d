// SPDX-License-Identifier: Apache-2.0
//
// Filters of system calls (seccomp) in an image: those that the program had put on itself, and
// those of its surroundings, with which cr_restart's own are compared.
#pragma once

#include "restore/saved.hpp"

#include <linux/filter.h>
#include <vector>

namespace cryo::restore {

std::vector<sock_filter> code_of(const image::CallFilter &filter);

// No thread has it of its own.
bool is_of_surroundings(const Saved &saved, const image::CallFilter &filter);

} // namespace cryo::restore
