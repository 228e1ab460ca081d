// SPDX-License-Identifier: Apache-2.0
//
// Numbers for the image's objects. The first is the address space.
#pragma once

#include "image/records.hpp"
#include "image/writer.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cryo::capture {

constexpr uint32_t memory_object = 1;

class Objects
{
  public:
    uint32_t take() { return next_++; }

  private:
    uint32_t next_ = memory_object + 1;
};

// Contents that were small enough to be copied when they were found: of a pipe, of a queue.
struct CopiedContents {
    uint32_t object = 0;
    image::ObjectKind kind = image::ObjectKind::pipe_contents;
    std::string bytes;
};

// The object with its record. (files_contents.cpp)
Result<void> save_copied(const CopiedContents &copy, image::ImageWriter &writer);

} // namespace cryo::capture
