// SPDX-License-Identifier: Apache-2.0
//
// Opens the image that is to be restarted, from a file or a descriptor.
//
//     Result<std::shared_ptr<image::Snapshot>> image = open_image(request, "context.412");
#pragma once

#include "backend/backend.hpp"
#include "image/snapshot.hpp"

namespace cryo::backend {

// Copies a pipe's contents into a file without a name.
Result<Fd> keep_piped(int from);

// The request's own, if it has been opened already.
Result<std::shared_ptr<image::Snapshot>> open_image(const RestartRequest &request,
                                                    const std::string &file);
// The first member of it: the root, or all processes of a backend that keeps them in one image.
Result<std::unique_ptr<image::Image>> open_first_member(const RestartRequest &request,
                                                        const std::string &file);

} // namespace cryo::backend
