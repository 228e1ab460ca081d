// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint as the callbacks see it. From the request to its end it is a *round*:
//
//   requested   no critical section may be entered any more
//   waiting     ... and those that are open must be left (critical.cpp)
//   threads     libcr's own thread runs the THREAD-context callbacks, the program runs on
//   signals     each thread with SIGNAL-context callbacks runs its own inside the signal handler
//   stopping    all callbacks have reached cr_checkpoint(): every thread parks, the image is taken
//   released    callbacks go on, in the reverse order; threads that are to be held wait for them
//
// Callbacks nest: cr_checkpoint() runs the next one, the innermost takes part in the stop. A round
// ends when the last thread has left its callbacks. The requester is answered twice: when all
// have voted (Op::prepare), and at the end (Op::done).
#pragma once

#include "agent/agent.hpp"
#include "agent/clients.hpp"

namespace cryo::agent {

enum class Stage : uint32_t { idle, requested, waiting, threads, signals, stopping, released };

struct Round {
    std::atomic<uint32_t> gate;    // futex; not 0: no critical section may begin
    std::atomic<uint32_t> stage;   // futex; a Stage
    std::atomic<uint32_t> live;    // threads that are in callbacks, and the leader
    std::atomic<uint32_t> barrier; // futex; changes when a round has ended
    std::atomic<uint32_t> number;  // of the round; a forked child knows by it that it has left
    std::atomic<int32_t> vote;     // 0, or why there will be no image: see vote()
    std::atomic<int32_t> outcome;  // what cr_checkpoint() returns, from `released` on
    std::atomic<int32_t> failure;  // what a callback's nonzero return makes of the round
    std::atomic<int32_t> kicked;   // the thread that shall take the round on, in the handler
    int32_t result = 0;            // of the requester: 0 or −errno
    int connection = 0;
    uint16_t requester = 0; // which protocol it speaks
    bool prepared = false;  // the requester has told what it wants
    bool callbacks = false; // any were run
    bool signalled = false; // the SIGNAL-context callbacks have begun
    bool omit = false;      // this process is always left out (cr_run --omit)
    RequestInfo info = {};
};

extern Round round;

// The handler, when a request has been accepted: the first step of a round.
void begin_round(int connection, int self, void *frame);
// The handler, by SI_TKILL: the thread is called to lead, or to run its callbacks. False: neither.
bool take_part(int self, void *frame, uint32_t generation);
// Whether a thread that comes by SI_TKILL is to park.
bool may_park();
// After a thread has parked and was released: hooks and the hold barrier.
void after_park(uint32_t barrier);

// The threads that wait in their callbacks get their slots, and come by themselves.
void park_waiting_clients();
// Answers the requester until it lets go.
void serve_round();
// The image is taken, or not: callbacks go on. True when there were none, and the round is over.
bool end_image(bool restarted);

// Runs a client's callbacks down to the innermost cr_checkpoint(); what that returned.
int run_callbacks(Client &client);
// libcr's own thread, when the stage is `threads`.
void run_thread_callbacks(Client &client);
// Tells the requester of further processes. −EOPNOTSUPP: it is of a release that cannot take them.
int forward_round(int scope, int target);
// A thread ends in its callbacks.
void abandon_callbacks(Client &client);
// In the child after a fork.
void forget_round();
int client_status();

// critical.cpp
void prepare_sections(); // in a new client, a restored process, a forked child
bool anybody_inside();
void close_gate();
void open_gate();
// The last one has left its critical section: true when the caller is the one to go on with the
// round.
bool may_go_on();
int enter_cs(int id, bool only_if_at_once);
int leave_cs(int id);
// For changes to the callbacks: a critical section of the calling thread, callbacks excluded.
int enter_change(Client **client);
void leave_change(Client &client);
void drop_critical_sections(Client &client);

// hold.cpp
int register_hook(int event, cr_hook_fn_t hook, cr_hook_fn_t *before);
int hold_ctrl(int scope, int flags, int *before);
void run_hook(const Client *client, int outcome);
bool is_held(const Client *client, int outcome);

// callback_thread.cpp, in ordinary surroundings
long need_callback_thread(); // waits until there is one
bool has_callback_thread();  // good in the handler
void callback_thread_after_fork();

void wait_while(std::atomic<uint32_t> &word, uint32_t value, long ns = 0);
void wake_all(std::atomic<uint32_t> &word);

} // namespace cryo::agent
