// SPDX-License-Identifier: Apache-2.0
//
// What a checkpoint is asked for, and what it tells when it is done.
#pragma once

#include "base/result.hpp"
#include "capture/files/file_options.hpp"
#include "capture/memory/delta_plan.hpp"
#include "image/records.hpp"
#include "image/writer.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

enum class Snapshot {
    automatic, // whichever of these stops it for the shortest time:
    fork,      // it runs on while a frozen copy of it is written
    staged,    // changed pages are copied in the stop if possible; else fork
    stop,      // it stays stopped until its memory has been read
};

// After this phase the program runs again, unless it stays stopped until the commit.
inline constexpr std::string_view phase_frozen = "frozen; the program goes on";

enum class Ptraced { error, skip, allow }; // a process that has a tracer

struct CheckpointOptions {
    image::Scope scope = image::Scope::process;
    std::string file;
    bool directory = false; // `file` is a directory with an image for each process
    int fd = -1;            // an open file to write to instead; `file` is then only for messages
    Snapshot snapshot = Snapshot::automatic;
    image::Existing existing = image::Existing::refuse;
    image::Backup backup;
    bool sync = true;
    bool callbacks_wait = false; // programs with callbacks resume when the image is complete
    image::Packing packing = image::Packing::raw;
    bool pack_small = false; // an image of a small program is compressed all the same
    FileOptions files;
    pid_t requester = 0;            // the requesting process, if it is not this one
    bool without_requester = false; // refuse callbacks that would add the requester
    bool in_callback = false;       // asked in a callback: must not wait for another checkpoint
    DeltaOptions delta;
    int device = -1;     // /dev/cryo: the kernel module moves the pages; -1: do without it
    int then_signal = 0; // sent after the commit, before the program resumes; implies stop
    Ptraced ptraced = Ptraced::error;
    bool ptracer_skip = false; // leave a process that traces others out; else an error
    unsigned timeout_s = 0;    // give up after that long; 0: never
    unsigned stall_s = 10;     // longest stop or wait without any progress
    unsigned retry_s = 0;      // how long to retry while the obstacle may pass
    bool may_join = false;     // may be merged with another checkpoint that it meets
    bool early_look = false;   // look at what can be seen before the stop;
                               // may stop the program twice
    std::function<void(std::string_view)> phase; // called as each phase ends
    // Decides whether the image, complete and at `place` for now, gets its name. Calls `alive` as
    // it makes progress, because the program may be stopped meanwhile.
    std::function<Result<void>(const std::string &place, const std::function<void()> &alive)>
        rehearse;
    // Bytes of memory read so far, of about `total`.
    std::function<void(uint64_t done, uint64_t total)> progress;
};

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

} // namespace cryo::capture
