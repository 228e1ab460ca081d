// SPDX-License-Identifier: Apache-2.0
//
// A file that every user may read, as node_exporter is another user. A reader sees a whole file,
// the old or the new one.
//
//     Result<ino_t> written = write_for_all(directory, "cryo-412.prom", text);
#pragma once

#include "base/directory.hpp"

#include <string>
#include <string_view>
#include <sys/types.h>

namespace cryo::metrics {

// In a directory of the caller's own, where nobody else makes names. Returns the file's number.
Result<ino_t> write_for_all(const Directory &directory, const std::string &name,
                            std::string_view text);

} // namespace cryo::metrics
