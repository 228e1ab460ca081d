// SPDX-License-Identifier: Apache-2.0
//
// Reads that go on until all is there.
//
//     Result<size_t> n = read_up_to(fd, path, bytes);   // fewer: the file has ended
#pragma once

#include "base/result.hpp"
#include "image/format.hpp"

#include <string>

namespace cryo::redundancy {

Result<size_t> read_up_to(int fd, const std::string &path, image::MutableBytes bytes);

} // namespace cryo::redundancy
