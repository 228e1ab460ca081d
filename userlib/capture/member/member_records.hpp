// SPDX-License-Identifier: Apache-2.0
//
// Writes everything about a member but the contents of its memory into its image.
//
//     if (Result<void> identified = identify_files(description); !identified)
//         return identified;
//     return write_records(writer, description, number, facts);
#pragma once

#include "capture/process/describe.hpp"
#include "image/writer.hpp"

#include <cstdint>
#include <string_view>

namespace cryo::capture {

// Facts about the checkpoint as a whole, for IMAGE_INFO.
struct ImageFacts {
    std::string_view backend;
    std::string_view snapshot;
    uint64_t stopped_ns = 0;    // 0: it is still stopped
    uint64_t stop_begun_ns = 0; // monotonic clock
    uint64_t begun_ns = 0;      // monotonic clock
};

// Notes how a restart recognises the files that the member has mapped. EBUSY: one has changed since
// it was looked at.
Result<void> identify_files(Description &d);
// `number`: the member's index among the holders of the common files; the first one's image has
// what concerns all.
Result<void> write_records(image::ImageWriter &writer, Description &d, size_t number,
                           const ImageFacts &facts);

} // namespace cryo::capture
