// SPDX-License-Identifier: Apache-2.0
//
// memfd_create(2): a file in memory, without its contents: its name, its seals, its kind of pages.
//
//     Result<void> done = save_memory_file(seen, file);
//     Result<Fd> made = make_memory_file(file); // ... and when it is filled:
//     Result<void> sealed = seal_memory_file(made->get(), file.seals, file.link);
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "resources/seen.hpp"

#include <cstdint>
#include <string_view>

namespace cryo::resources {

Result<void> save_memory_file(const Seen &seen, image::File &file);
// The flags by which it is made, but for those about huge pages.
unsigned memory_file_flags(const image::File &file);
// Of ordinary pages.
Result<Fd> make_memory_file(const image::File &file);
Result<void> seal_memory_file(int fd, uint32_t seals, std::string_view link);
// Whether its seals would forbid the writable mappings that processes have already.
bool is_sealed_late(const image::File &file);

} // namespace cryo::resources
