// SPDX-License-Identifier: Apache-2.0
//
// The digests that an S3 server compares with what it received, by OpenSSL.
//
//     Result<Digests> digests = digests_of(fd, name, offset, length);
//     digests->sha256         // 64 hexadecimal digits, for x-amz-content-sha256
//     digests->md5            // 32 hexadecimal digits: the ETag of a part
//     digests->md5_base64     // for Content-MD5
#pragma once

#include "base/result.hpp"

#include <cstdint>
#include <string>
#include <string_view>

namespace cryo::store {

struct Digests {
    std::string sha256 = {};
    std::string md5 = {};
    std::string md5_base64 = {};
};

Result<Digests> digests_of(std::string_view bytes);
// Of a part of a file. EIO: the file ends before that.
Result<Digests> digests_of(int fd, const std::string &name, uint64_t offset, uint64_t length);

} // namespace cryo::store
