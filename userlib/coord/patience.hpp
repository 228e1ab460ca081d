// SPDX-License-Identifier: Apache-2.0
//
// How long the parts of a job wait for one another while a checkpoint is made and ranks stand
// still.
//
// The coordinator asks every daemon for a word all the time, and each daemon passes it on to its
// ranks. A daemon that says nothing for longest_silence() has the checkpoint called off. A rank
// that is told nothing for patience_of_ranks times as long goes on by itself, for everybody above
// it may be stopped. In between nothing may be agreed upon: who has not asked for longest_silence()
// may be one whom ranks have given up (docs/coordinator.md).
#pragma once

#include <chrono>
#include <string>

namespace cryo::coord {

std::chrono::milliseconds longest_silence(); // CRYO_DEADLINE, or 5 s
inline constexpr int patience_of_ranks = 2;  // times as long
inline constexpr int looks_in_silence = 5;   // words that are asked for in that time

std::string in_seconds(std::chrono::milliseconds time);

} // namespace cryo::coord
