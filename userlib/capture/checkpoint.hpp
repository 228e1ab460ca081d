// SPDX-License-Identifier: Apache-2.0
//
// Saving a process, a tree, a group or a session: stop, look, freeze, go on, write, commit. One
// process gives a plain image, several an archive.
//
//     CheckpointOptions options;
//     options.file = "context.412";
//     Result<Outcome> done = checkpoint(412, options);
#pragma once

#include "base/result.hpp"
#include "capture/delta_plan.hpp"
#include "capture/file_options.hpp"
#include "image/records.hpp"
#include "image/writer.hpp"

#include <functional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

enum class Snapshot {
    automatic, // as it stands still for the shortest time, out of these:
    fork,      // the program goes on while a frozen copy of it is written
    staged,    // what has changed is copied in the stop, where that can be; else as fork
    stop,      // it stands still until it has been read
};

// The phase after which the program runs again, unless it waits for the commit.
inline constexpr std::string_view phase_frozen = "frozen; the program goes on";

enum class Ptraced { error, skip, allow }; // a process that somebody traces

struct CheckpointOptions {
    image::Scope scope = image::Scope::process;
    std::string file;
    bool directory = false; // `file` is one, with an image of each process
    int fd = -1;            // an open file that is written to instead; `file` is for messages then
    Snapshot snapshot = Snapshot::automatic;
    image::Existing existing = image::Existing::refuse;
    image::Backup backup;
    bool sync = true;
    image::Packing packing = image::Packing::raw;
    FileOptions files;
    pid_t requester = 0;            // who asks, if it is not this process
    bool without_requester = false; // no callback may take it in
    bool in_callback = false;       // it asks in a callback, and must not wait for another one
    DeltaOptions delta;
    int device = -1;     // /dev/cryo: the kernel module moves the pages; -1: without it
    int then_signal = 0; // sent after the commit, before the program runs on; implies stop
    Ptraced ptraced = Ptraced::error;
    bool ptracer_skip = false; // one that traces others is left out; else an error
    unsigned timeout_s = 0;    // given up after that; 0: never
    unsigned stall_s = 10;   // nobody stands still, or is waited for, while nothing happens so long
    unsigned retry_s = 0;    // tried again for so long, where what is in the way may pass
    bool may_join = false;   // may be carried out as part of another one that it meets
    bool early_look = false; // what can be looked at before the program stops is; then the
                             // program may be stopped twice
    std::function<void(std::string_view)> phase; // told as each phase ends
    // Whether the image, complete and at `place` for now, is to have its name. Calls `alive` as it
    // gets on, for the program may stand still meanwhile.
    std::function<Result<void>(const std::string &place, const std::function<void()> &alive)>
        rehearse;
    // Bytes of memory that have been read, of about so many.
    std::function<void(uint64_t done, uint64_t total)> progress;
};

struct Outcome {
    image::Committed image;
    uint64_t processes = 0;
    uint64_t threads = 0;
    uint64_t pages = 0;
    uint64_t stopped_ns = 0;
    uint64_t total_ns = 0;
    uint64_t rehearsed_ns = 0;        // of these, how long the rehearsal took; 0: there was none
    uint64_t tries = 1;               // each of which has stopped the program
    std::string snapshot;             // as IMAGE_INFO of the first process has it
    std::vector<std::string> notices; // what a person should know of this image
};

// `id`: of a process, or of the group or session that the scope names.
Result<Outcome> checkpoint(pid_t id, const CheckpointOptions &options);

} // namespace cryo::capture
