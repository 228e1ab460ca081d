// SPDX-License-Identifier: Apache-2.0
//
// How two daemons of a job that meet over TCP prove to each other that they know its secret,
// without saying it:
//
//     listener  -> {"challenge": L}
//     connector -> {"nonce": C, "proof": proof("connect", L, C)}
//     listener  -> {"proof": proof("accept", L, C)}
//
// What follows is neither hidden nor signed: who can change the packets of a cluster's network can
// change those of MPI, too.
#pragma once

#include "coord/channel.hpp"

#include <functional>
#include <memory>
#include <string>

namespace cryo::coord {

std::string random_hex(size_t bytes);

// Calls `then` when the other end has proven itself; else the channel is closed and on_end told.
using Proven = std::function<void()>;
void expect_proof(const std::shared_ptr<Channel> &channel, const std::string &secret, Proven then);
void give_proof(const std::shared_ptr<Channel> &channel, const std::string &secret, Proven then);

} // namespace cryo::coord
