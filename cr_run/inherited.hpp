// SPDX-License-Identifier: Apache-2.0
//
// Descriptors that a program inherits from cr_run's parent besides standard input, output
// and error. Many are of no use to the program and lead to processes that are not saved.
#pragma once

namespace cryo {

// Leaves a note for cr_checkpoint in the environment (CRYO_INHERITED). With `tells`, reports on
// standard error which of them a restart does not bring back, or a checkpoint refuses.
void note_inherited(bool tells);
// Removes the note: one from an outer cr_run is about another program.
void forget_inherited();

} // namespace cryo
