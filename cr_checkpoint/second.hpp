// SPDX-License-Identifier: Apache-2.0
//
// A copy of the complete image at a server or in an object store (--second), sent while the program
// goes on.
//
//     if (Result<void> good = complete_second(options); !good) ...     // before the checkpoint
//     Result<void> sent = send_second(options);                        // after it
#pragma once

#include "base/result.hpp"
#include "options.hpp"

// Refuses what cannot be given there, and what is known to fail.
cryo::Result<void> complete_second(Options &options);
// Nothing is done without --second. The error says that the image itself is complete.
cryo::Result<void> send_second(Options &options);
