// SPDX-License-Identifier: Apache-2.0
//
// Allocates ids for the image's objects. The first is the address space.
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

// Contents small enough to be copied when they are found: of a pipe or a queue.
struct CopiedContents {
    uint32_t object = 0;
    image::ObjectKind kind = image::ObjectKind::pipe_contents;
    std::string bytes;
};

// Writes the object and its record.
Result<void> save_copied(const CopiedContents &copy, image::ImageWriter &writer);

} // namespace cryo::capture
