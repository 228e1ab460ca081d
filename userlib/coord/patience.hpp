// SPDX-License-Identifier: Apache-2.0
//
// How long the parts of a job wait for one another while a checkpoint is made and ranks stand
// still.
//
// The coordinator polls every daemon regularly, and each daemon passes a sign of life on to
// its ranks. If a daemon is silent for longest_silence(), the checkpoint is cancelled. A rank
// that hears nothing for patience_of_ranks times as long resumes by itself, because all
// daemons above it may be stopped. In between nothing may be agreed upon: a coordinator that
// has not polled for longest_silence() may have been given up by ranks (docs/coordinator.md).
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace cryo::coord {

std::chrono::milliseconds longest_silence(); // CRYO_DEADLINE, or 5 s
inline constexpr int patience_of_ranks = 2;  // times as long
inline constexpr int looks_in_silence = 5;   // polls in that time

// For all ranks to stand still, where a request (--time) says nothing else.
inline constexpr int64_t default_patience_s = 600;
inline constexpr int image_times = 12; // as long as that, at most, for an image that grows
std::chrono::milliseconds longest_image(int64_t patience_s);

// How much longer an image of so many bytes may take: as long as a slow disk needs, or a copy that
// writes `rate` bytes a second (0: there is no limit), and a day at most.
inline constexpr std::chrono::hours longest_growth{24};
std::chrono::milliseconds time_to_write(uint64_t bytes, uint64_t rate);

// For a command to hear how a checkpoint with this --time has ended: all of the above, one after
// the other, and the commit; longest_growth more once images are written.
std::chrono::milliseconds longest_command(int64_t patience_s);

std::string in_seconds(std::chrono::milliseconds time);

} // namespace cryo::coord
