// SPDX-License-Identifier: Apache-2.0
//
// What a user names to be put into a store, as files: an image with those that it is based on, an
// image that is a directory, or all finished snapshots of an MPI job.
//
//     Result<Contents> contents = contents_of("context.412");
#pragma once

#include "base/result.hpp"
#include "store/contents.hpp"

#include <string>

namespace cryo::store {

// EACCES: it belongs to another user. An image that is taken out of a store belongs to whoever
// takes it, and so what may not be restarted may not be put there.
Result<Contents> contents_of(const std::string &path);

} // namespace cryo::store
