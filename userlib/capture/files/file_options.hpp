// SPDX-License-Identifier: Apache-2.0
//
// The user's choices about descriptors that cannot be saved completely.
#pragma once

#include <functional>
#include <optional>
#include <sys/types.h>

namespace cryo::capture {

struct FileOptions {
    bool close_sockets = false; // connections come back as closed
    bool keep_sockets = false;  // TCP connections come back, with their peers
    bool ends_program = false;  // no choice: it ends when the image is complete
    bool refuse_pipes = false;  // refuse outside pipes without a place in cr_restart; else close
    bool close_fifos = false;   // close such FIFOs too, instead of refusing them
    bool save_files = false;    // save the contents of all open regular files
    bool save_exe = false;      // save every page of the program file,
    bool save_private = false;  // of all privately mapped files,
    bool save_shared = false;   // of files mapped shared and writable
    // No choice: in a user namespace, asks outside whose a file is. Nothing: that is not known.
    std::function<std::optional<uid_t>(int fd)> owner_of = {};
};

} // namespace cryo::capture
