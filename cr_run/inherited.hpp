// SPDX-License-Identifier: Apache-2.0
//
// What a program gets from whoever starts cr_run besides standard input, output and error. Much of
// it is of no use to the program and leads to processes that are not saved.
#pragma once

namespace cryo {

// Says on standard error what of it a restart does not bring back, or a checkpoint refuses, and
// leaves a note for cr_checkpoint in the environment (CRYO_INHERITED).
void tell_inherited();
// There is none: what an outer cr_run has noted is of another program.
void forget_inherited();

} // namespace cryo
