// SPDX-License-Identifier: Apache-2.0
//
// The snapshots of an MPI job at a server of images: a series is the job's place. Each of its files
// is an image of the series that is named by its contents, as in an object store
// (store/manifest.hpp), and one more, which is written last, names them:
//
//     SERIES/CHECKSUM-BYTES
//     SERIES/cryo.json
//
//     Result<JobAtServer> sent = push_job(connect, "job9", contents, {.rate = rate});
//     Result<JobAtServer> there = pull_job(client, "job9", "/pfs/job9", progress);
#pragma once

#include "base/result.hpp"
#include "server/client.hpp"
#include "store/contents.hpp"
#include "store/manifest.hpp"

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cryo::server {

struct JobAtServer {
    store::Manifest manifest = {};
    uint64_t sent = 0; // bytes; the others were there
    std::vector<std::string> notices = {};
};

struct JobSending {
    uint64_t rate = 0; // bytes a second; 0: no limit
    Progress progress = {};
};

// Connects twice, since the server does not wait for a client that reads all its files first.
using Connect = std::function<Result<Client>()>;
// Whatever ends it, the series has what it had before, or the new snapshots; and what was sent need
// not be sent again. EEXIST: the series has images of another kind. EBUSY: another push has
// committed meanwhile.
Result<JobAtServer> push_job(const Connect &connect, const std::string &series,
                             const store::Contents &contents, const JobSending &how);
// Into a directory that is made. ENOENT: the series has no complete snapshots.
Result<JobAtServer> pull_job(Client &client, const std::string &series,
                             const std::string &directory, const Progress &progress);
// Whether it has complete ones.
Result<bool> has_job(Client &client, const std::string &series);

} // namespace cryo::server
