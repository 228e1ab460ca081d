// SPDX-License-Identifier: Apache-2.0
//
// The images and snapshots in a directory, whoever has made them and whatever their names.
//
//     const Result<Shelf> shelf = look_at_shelf("/scratch/run");
//     for (const Stored &one : shelf->images)       // the oldest first
//         print("{}: {}\n", one.name, size_text(one.bytes));
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"
#include "image/needed_files.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::survey {

enum class Kind : uint8_t {
    image,     // of a process
    archive,   // of several processes, in one file
    directory, // of several processes, a file each
    file,      // a version of a file, by cr_delta
    job,       // a snapshot of an MPI job
};
const char *name_of(Kind kind);

struct Stored {
    std::string name = {};              // in the directory
    std::vector<std::string> also = {}; // further names of the same file there
    Kind kind = Kind::image;
    std::string program = {}; // as it was started; "": unknown
    pid_t pid = 0;            // 0: unknown
    size_t processes = 0;
    int64_t taken_ns = 0; // since 1970
    uint64_t stopped_ns = 0;
    uint64_t bytes = 0;
    bool delta = false;
    std::vector<std::string> based_on = {}; // images of the directory that it needs, its base first
    std::optional<Error> broken = {};       // why it cannot be brought back
    // Of a file:
    image::FileId id = {};
    uid_t owner = 0;
    nlink_t names = 0; // everywhere
};

struct Shelf {
    std::string directory;
    std::vector<Stored> images; // the oldest first
    uint64_t bytes() const;
};

// Looks at what describes the images, and not at the contents of their pages. ENOTDIR, or the
// error of open(2): it is no directory, or a link to one.
Result<Shelf> look_at_shelf(const std::string &path);
// What one image says of its program and its checkpoint; one of several processes says it of the
// first.
Result<Stored> look_at_image(const std::string &path);
// Reads all that is needed to bring an image back, and compares it with its checksums.
Result<void> read_whole(const Directory &directory, const std::string &name);

} // namespace cryo::survey
