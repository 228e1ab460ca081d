// SPDX-License-Identifier: Apache-2.0
//
// Opens a FIFO of an image, or makes it again, by the names that the program has opened it by.
//
//     Result<Ends> ends = open_fifo(opening, file);
//     write(ends->writer.get(), ...);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/records.hpp"
#include "resources/opening.hpp"

namespace cryo::resources {

// Of a pipe, or of a FIFO.
struct Ends {
    Fd reader, writer;
};

Result<Ends> open_fifo(Opening &opening, const image::File &file);

} // namespace cryo::resources
