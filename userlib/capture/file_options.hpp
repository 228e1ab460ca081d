// SPDX-License-Identifier: Apache-2.0
//
// What the user decided about descriptors that cannot be saved as they are.
#pragma once

namespace cryo::capture {

struct FileOptions {
    bool close_sockets = false; // connections come back as closed
    bool refuse_pipes = false;  // to outside, that have no place in cr_restart: else they do, too
    bool close_fifos = false;   // so do such FIFOs, which else are refused
    bool save_files = false;    // contents of all regular files that are open
    bool save_exe = false;      // every page of the program file,
    bool save_private = false;  // of all files that are mapped privately,
    bool save_shared = false;   // of files that are mapped shared and may be written
};

} // namespace cryo::capture
