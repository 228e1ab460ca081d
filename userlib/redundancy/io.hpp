// SPDX-License-Identifier: Apache-2.0
//
// Reads and writes that go on until all is done.
//
//     Result<size_t> n = read_up_to(fd, path, bytes);   // fewer: the file has ended
//     Result<void> done = write_all(fd, path, bytes);
#pragma once

#include "base/result.hpp"
#include "image/format.hpp"

#include <string>

namespace cryo::redundancy {

Result<size_t> read_up_to(int fd, const std::string &path, image::MutableBytes bytes);
Result<void> write_all(int fd, const std::string &path, image::Bytes bytes);

} // namespace cryo::redundancy
