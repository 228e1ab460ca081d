// SPDX-License-Identifier: Apache-2.0
//
// Saves a process, a tree, a group or a session: stop, look, freeze, resume, write, commit. One
// process gives a plain image, several give an archive.
//
//     CheckpointOptions options;
//     options.file = "context.412";
//     Result<Outcome> done = checkpoint(412, options);
#pragma once

#include "base/result.hpp"
#include "capture/process/options.hpp"
#include "image/writer.hpp"

#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

struct Outcome {
    image::Committed image;
    uint64_t processes = 0;
    uint64_t threads = 0;
    uint64_t pages = 0;
    uint64_t stopped_ns = 0;
    uint64_t total_ns = 0;
    uint64_t rehearsed_ns = 0;        // the part of total_ns spent in the rehearsal; 0: none
    uint64_t tries = 1;               // each try stopped the program
    std::string snapshot;             // the IMAGE_INFO value of the first process
    std::vector<std::string> notices; // what the user should know about this image
};

// `id`: a process, or the group or session that the scope names.
Result<Outcome> checkpoint(pid_t id, const CheckpointOptions &options);

} // namespace cryo::capture
