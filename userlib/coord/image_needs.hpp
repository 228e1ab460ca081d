// SPDX-License-Identifier: Apache-2.0
//
// What a rank's image that is a delta needs: images of the same rank in snapshots beside its own
// (image/base_finder.hpp).
//
//     Result<bool> may = may_be_base("/pfs/job.ckpt/3/opal_snapshot_0.ckpt/cryo_context.412");
//     Result<std::vector<int>> needs = needs_of(the delta);    // {3, 2, 0}
#pragma once

#include "base/result.hpp"

#include <string>
#include <vector>

namespace cryo::coord {

// False: it was made without the digests of its pages (--delta), so that all of them would have to
// be read while the ranks stand still. An error: it, or what it needs, is not there, is not whole,
// or is not the user's own.
Result<bool> may_be_base(const std::string &path);

// The numbers of the snapshots, its base's first; none: the image is complete. ESTALE: it needs one
// that is elsewhere, of which those who remove snapshots would not know.
Result<std::vector<int>> needs_of(const std::string &path);

} // namespace cryo::coord
