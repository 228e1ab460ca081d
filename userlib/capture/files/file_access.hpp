// SPDX-License-Identifier: Apache-2.0
//
// Whose a file is, and whether its user may open it again by its name.
//
//     file.uid = owner_of_file(seen, options);
//     note_access(seen, look, saving);         // once it is known how the file is saved
#pragma once

#include "capture/files/descriptor_look.hpp"
#include "capture/files/file_options.hpp"
#include "resources/saving.hpp"

#include <sys/types.h>

namespace cryo::capture {

// A restart judges owners as its caller sees them, outside of the program's user namespace.
uid_t owner_of_file(const resources::Seen &seen, const FileOptions &options);

// Notifies the user of a file that somebody with more rights has opened for the program, as the
// output to which a shell of root's leads before it becomes another user.
void note_access(const resources::Seen &seen, const DescriptorLook &look,
                 resources::Saving &saving);

} // namespace cryo::capture
