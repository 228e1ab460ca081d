// SPDX-License-Identifier: Apache-2.0
//
// The key that a server of images and its clients share: a file with 64 hexadecimal digits that
// nobody but its owner may read.
//
//     Result<std::string> secret = read_key(usual_key_file());
//     Tls client(identity, coord::derived_key(*secret, identity));
#pragma once

#include "base/result.hpp"

#include <optional>
#include <string>

namespace cryo::server {

// CRYO_SERVER_KEY, else cryo/server.key in the user's directory of settings.
std::string usual_key_file();
// EACCES: it is another user's, or others may read it.
Result<std::string> read_key(const std::string &path);
// In a directory that is made if it is missing. EEXIST: there is a key, which is not replaced.
Result<void> make_key(const std::string &path);

// What a client calls itself: "store/NODE". Each has a key of its own, derived from the secret.
inline constexpr const char *identity_prefix = "store/";
std::string own_identity();
// The node in it; none: it is no client's.
std::optional<std::string> node_in(const std::string &identity);

} // namespace cryo::server
