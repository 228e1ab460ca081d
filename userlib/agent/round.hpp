// SPDX-License-Identifier: Apache-2.0
//
// The steps of a round that involve callbacks; callbacks.hpp has an overview.
#pragma once

#include "agent/callbacks.hpp"

namespace cryo::agent {

// `kind`: a CR_CHECKPOINT_* flag, or 0 for Cryo's own reasons. The first vote stands, but a
// permanent failure overrides any other.
void vote(int kind, int code);

// Leads the stop in this thread, in the handler. False: there will be no image.
bool lead_here(int self, void *frame);
// As lead_here(), for libcr's own thread, which is not in the handler. Returns the outcome.
int lead_from_thread(Client &client);
// For any other thread, in the handler.
int wait_for_image(Client &client);
// Reports to the requester that there will be no image, and lets cr_checkpoint() return.
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
