// SPDX-License-Identifier: Apache-2.0
//
// Finds the images that a delta is based on: where a service directory says, among files that were
// named, and beside the delta itself.
//
//     Finder finder{.state = &service.state(), .named = {"/backup/job.d1"}};
//     auto version = finder.open("job.d7");
#pragma once

#include "delta/state.hpp"
#include "delta/version.hpp"
#include "image/base_finder.hpp"

namespace cryo::delta {

struct Finder {
    const State *state = nullptr; // must outlive what is opened
    std::vector<std::string> named = {};

    Result<std::unique_ptr<Version>> open(const std::string &path) const;
    // Opens the version and all images that it needs, so that a missing one is reported now.
    Result<std::unique_ptr<Version>> open_whole(const std::string &path) const;
    image::FindBase beside(const std::string &path) const;
};

using image::id_of_file;

} // namespace cryo::delta
