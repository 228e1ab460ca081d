// SPDX-License-Identifier: Apache-2.0
//
// Images at a server, for commands that do not link what speaks with it: a program beside them does
// that, server-client, and ends with its caller.
//
//     Result<Stored> kept = send_image(url, fd, {.replace = true, .progress = talk.progress(...)});
//     Result<Stored> there = fetch_image(url, fd, progress);
#pragma once

#include "base/result.hpp"
#include "cli/helper.hpp"
#include "server/url.hpp"

#include <cstdint>
#include <string>
#include <vector>

namespace cryo::server {

struct Stored {
    ImageName image = {};
    uint64_t number = 0; // grows from image to image
    uint64_t bytes = 0;
    std::string checksum = {};
};

using cli::TellProgress;

struct Sending {
    bool replace = false; // else what is there with other contents is an error, EEXIST
    uint64_t rate = 0;    // bytes a second; 0: no limit
    TellProgress progress = {};
};

// What would fail at once if an image were sent: there is no key, or no server that has it.
enum class Check { key, server };
Result<void> check_sending(const Url &url, Check what);
// The file's contents; its position stays.
Result<Stored> send_image(const Url &url, int fd, const Sending &how);
// Into a file that is open for reading and writing. `latest` in a series that has no image of that
// name is the last that it was given.
Result<Stored> fetch_image(const Url &url, int fd, const TellProgress &progress);
// Of the URL's series; all, if it names none. In the order of their names.
Result<std::vector<Stored>> list_images(const Url &url);
// ESTALE: the image of that name has another checksum.
Result<void> remove_image(const Url &url, const std::string &checksum);

// All finished snapshots of an MPI job, into a series of their own (server/job.hpp). Returns
// notices.
Result<std::vector<std::string>> push_job(const Url &series, const std::string &directory,
                                          const Sending &how);
// The directory is made.
Result<void> pull_job(const Url &series, const std::string &directory);
Result<bool> has_job(const Url &series);

} // namespace cryo::server
