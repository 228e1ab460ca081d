// SPDX-License-Identifier: Apache-2.0
//
// Images in object stores (s3://BUCKET/NAME), for commands that restart them: cr_store, which is a
// package of its own, brings them.
//
//     if (cli::is_stored(named)) {
//         Result<std::string> image = cli::bring_stored(named, "/tmp/.cryo-store.x/image");
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>

namespace cryo::cli {

bool is_stored(std::string_view named);

// The directory is made. Returns the path of the image in it, or of the directory itself. The error
// is cr_store's.
Result<std::string> bring_stored(const std::string &place, const std::string &directory);

} // namespace cryo::cli
