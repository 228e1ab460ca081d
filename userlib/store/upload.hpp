// SPDX-License-Identifier: Apache-2.0
//
// A file becomes an object: small ones at once, others in parts. Parts that an interrupted upload
// of this object has left are compared by their digests, and not sent again.
//
//     Result<UploadOutcome> done = upload(file, place, {.settings = settings, .terms = terms});
#pragma once

#include "base/result.hpp"
#include "store/client.hpp"

#include <cstdint>
#include <functional>
#include <string>

namespace cryo::store {

struct UploadSource {
    int fd = -1;
    std::string name = {}; // for messages
    uint64_t bytes = 0;
    std::function<Result<void>()> check = {}; // before the object gets its name
};

struct UploadOptions {
    const Settings &settings;
    Terms terms = {};
    uint64_t part_size;
    unsigned workers = 1;
    std::atomic<bool> &ended;
};

struct UploadOutcome {
    uint64_t sent = 0; // bytes
    uint64_t kept = 0; // that were there from an earlier try
};

Result<UploadOutcome> upload(const UploadSource &source, const Location &to,
                             const UploadOptions &options);

inline constexpr uint64_t usual_part_size = uint64_t(16) << 20;
// No smaller than wanted, and so large that there are no more parts than S3 allows.
uint64_t part_size_for(uint64_t bytes, uint64_t wanted);

} // namespace cryo::store
