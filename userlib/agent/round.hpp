// SPDX-License-Identifier: Apache-2.0
//
// The steps of a round that the callbacks take part in; callbacks.hpp has the whole picture.
#pragma once

#include "agent/callbacks.hpp"

namespace cryo::agent {

// `kind`: a CR_CHECKPOINT_* flag, or 0 for a reason of our own. The first vote stands, but a
// permanent failure overrides any other.
void vote(int kind, int code);

// Leads the stop in this thread, in the handler. False: it was refused.
bool lead_here(int self, void *frame);
// The same from libcr's own thread, which stands outside the handler.
int lead_from_thread(Client &client);
// Any other thread, in the handler.
int wait_for_image(Client &client);
// There will be no image: tells the requester, and lets the callbacks know.
void refuse();
void leave_round_without_hold();

// callbacks.cpp
int callback_checkpoint(int flags);
const cr_checkpoint_info *checkpoint_info();
const cr_restart_info *restart_info();
int register_callback(cr_callback_t fn, void *argument, int flags);
int replace_callback(int id, cr_callback_t fn, void *argument, int flags);
int replace_self(cr_callback_t fn, void *argument, int flags);

} // namespace cryo::agent
