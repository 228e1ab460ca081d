// SPDX-License-Identifier: Apache-2.0
//
// How long a restart waits for other processes of this machine. Limits of a checkpoint are in
// capture/session/patience.hpp, those of a job in coord/patience.hpp.
#pragma once

#include <chrono>

namespace cryo {

// For deliveries and connections within this machine.
constexpr std::chrono::seconds local_delivery_limit{10};

// For processes that are ending to release a System V object or a message queue, and how often
// their state is read meanwhile.
constexpr int release_limit_ms = 5'000;
constexpr int release_poll_ms = 5;

} // namespace cryo
