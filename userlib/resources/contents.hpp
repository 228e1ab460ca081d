// SPDX-License-Identifier: Apache-2.0
//
// The contents of a file, which are an object of the image: only where the file has data.
//
//     Result<void> saved = save_contents(writer, file, fd, buffer, at_work); // its Object is added
//     Result<void> filled = fill(image, file, fd);                           // of a new file
#pragma once

#include "base/result.hpp"
#include "image/reader.hpp"
#include "image/records.hpp"
#include "image/writer.hpp"

#include <cstdint>
#include <functional>
#include <vector>

namespace cryo::resources {

// The part of a file that is read or written at once.
inline constexpr uint64_t contents_part = 1 << 20;

// `buffer`: of contents_part bytes. `at_work` is called after each part.
Result<void> save_contents(image::ImageWriter &writer, const image::File &file, int source,
                           std::vector<uint8_t> &buffer, const std::function<void()> &at_work);
// Fills an empty file that can be written to by write(2).
Result<void> fill(image::Image &image, const image::File &file, int fd);
// Whether a file of the saved size has the saved contents.
Result<bool> has_contents(image::Image &image, const image::File &file, int fd);

} // namespace cryo::resources
