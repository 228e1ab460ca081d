// SPDX-License-Identifier: Apache-2.0
//
// Images in object stores (s3://BUCKET/NAME), for commands that put them there or restart them:
// cr_store, which is a package of its own, does that.
//
//     if (cli::is_stored(named)) {
//         Result<Brought> image = cli::bring_stored(named, "/tmp/.cryo-store.x/image");
//         Result<Pushed> pushed = cli::push_stored("context.412", named, {});
#pragma once

#include "base/result.hpp"
#include "cli/helper.hpp"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::cli {

bool is_stored(std::string_view named);

struct Brought {
    std::string path = {};  // of the image, or the directory itself
    std::string place = {}; // from where: of a series, the last one's
};
// The directory is made. Errors of all of these are cr_store's.
Result<Brought> bring_stored(const std::string &place, const std::string &directory);

// What would fail at once if something were put there: no server is set, or with `connect` there is
// none, or no such bucket, or no access to it.
Result<void> check_stored(const std::string &place, bool connect);

struct PushOptions {
    uint64_t rate = 0; // bytes a second; 0: no limit
    TellProgress progress = {};
};
struct Pushed {
    std::string place = {}; // as it is normally written
    std::vector<std::string> notices = {};
};
// An image with those that it is based on, or all finished snapshots of a job.
Result<Pushed> push_stored(const std::string &path, const std::string &place,
                           const PushOptions &options);

struct StoredPlace {
    std::string place = {};
    uint64_t bytes = 0;    // of its files together
    bool is_begun = false; // and not complete: nothing can be restarted from it
};
// What is below a place. What cannot be read there counts as complete, with no bytes.
Result<std::vector<StoredPlace>> list_stored(const std::string &place);
Result<void> remove_stored(const std::string &place);

} // namespace cryo::cli
