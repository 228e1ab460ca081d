// SPDX-License-Identifier: Apache-2.0
//
// Makes the parity of a set's image files, and files of members that are lost, where the
// directories of all members can be seen. Either holds one row of blocks in memory, whatever the
// files' size.
//
//     Result<void> done = encode(set, directories, trust, sync);
//
//     Result<Rebuilt> back = rebuild({&n1, &n2, &n3}, {{3, &fresh}}, trust);
//     for (const Error &damage : back->damaged) ...   // what was to be replaced on the others, too
#pragma once

#include "base/directory.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"
#include "redundancy/description.hpp"

#include <map>
#include <vector>

namespace cryo::redundancy {

// All directories are those of the user: no other one may write there, which is checked of those
// that are written to.

// Reads each member's files in its directory, and writes its parity there. A file that is not as
// described is an error, and nothing stays then. The description's `member` does not matter.
Result<void> encode(const Description &set, const std::vector<Directory> &members,
                    const Trust &trust, bool sync);

struct Rebuilt {
    // What was found damaged, and was not used: files of members that are there, or their parity.
    std::vector<Error> damaged;
    // Whether the members that were made have parity again. They have not if it would have been
    // made of damaged files: then those have to be made first, by leaving out the directory of
    // their member.
    bool redundant = true;
};

// `there` are directories of members, in any order: those that are not among them are lost. `to`
// has fresh directories for lost members that shall be made, by their number. With none of these
// all blocks are only checked. ENODATA: too much is lost.
Result<Rebuilt> rebuild(const std::vector<const Directory *> &there,
                        const std::map<uint32_t, const Directory *> &to, const Trust &trust);

} // namespace cryo::redundancy
