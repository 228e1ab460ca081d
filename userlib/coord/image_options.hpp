// SPDX-License-Identifier: Apache-2.0
//
// How the images of ranks are taken: what ompi-checkpoint asks for, and the coordinator tells all
// daemons. The fields of both messages (message.cpp) are those of the tables.
//
//     json message = to_json(options);
//     ImageOptions options = image_options(message);
#pragma once

#include "capture/files/file_options.hpp"
#include "cli/common_options.hpp"

#include <nlohmann/json.hpp>

namespace cryo::coord {

struct ImageOptions {
    cli::CommonOptions common;
    bool fork = true; // else the rank stands still until its image is committed
    bool sync = true;
    capture::FileOptions files; // whose contents are saved
};

struct ImageFlag {
    const char *name; // of the field
    // One of the two.
    bool ImageOptions::*own = nullptr;
    bool capture::FileOptions::*of_files = nullptr;
};

inline constexpr ImageFlag image_flags[] = {
    {.name = "fork", .own = &ImageOptions::fork},
    {.name = "sync", .own = &ImageOptions::sync},
    {.name = "save_exe", .of_files = &capture::FileOptions::save_exe},
    {.name = "save_private", .of_files = &capture::FileOptions::save_private},
    {.name = "save_shared", .of_files = &capture::FileOptions::save_shared},
};

ImageOptions image_options(const nlohmann::json &from);
nlohmann::json to_json(const ImageOptions &options);

} // namespace cryo::coord
