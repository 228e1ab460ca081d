// SPDX-License-Identifier: Apache-2.0
//
// A checkpoint from the callbacks' point of view. From the request to its end it is a *round*:
//
//   requested   no new critical section may begin
//   waiting     ... and open ones must be left (critical.cpp)
//   threads     libcr's own thread runs the THREAD-context callbacks, the program runs on
//   signals     each thread with SIGNAL-context callbacks runs its own inside the signal handler
//   stopping    all callbacks have reached cr_checkpoint(): every thread parks, the image is taken
//   released    callbacks continue, in reverse order; threads that are held wait for them
//
// Callbacks nest: cr_checkpoint() runs the next one, and the innermost takes part in the stop. A
// round ends when the last thread has left its callbacks. The requester is answered twice: when all
// have voted (Op::prepare), and at the end (Op::done).
#pragma once

#include "agent/agent.hpp"
#include "agent/clients.hpp"

namespace cryo::agent {

enum class Stage : uint32_t { idle, requested, waiting, threads, signals, stopping, released };

struct Round {
    std::atomic<uint32_t> gate;    // futex; nonzero: no critical section may begin
    std::atomic<uint32_t> stage;   // futex; a Stage
    std::atomic<uint32_t> live;    // threads that are in callbacks, and the leader
    std::atomic<uint32_t> barrier; // futex; changes when a round has ended
    std::atomic<uint32_t> number;  // of the round; tells a child forked in a callback that it left
    std::atomic<int32_t> vote;     // 0, or why there will be no image: see vote()
    std::atomic<int32_t> outcome;  // what cr_checkpoint() returns, from `released` on
    std::atomic<int32_t> failure;  // the process's fate if a callback returned nonzero
    std::atomic<int32_t> kicked;   // the thread that is to continue the round, in the handler
    int32_t result = 0;            // of the requester: 0 or −errno
    int connection = 0;
    uint64_t features = 0;  // of the requester
    bool prepared = false;  // the requester has sent Prepare
    bool callbacks = false; // any were run
    bool signalled = false; // the SIGNAL-context callbacks have begun
    bool omit = false;      // this process is always left out (cr_run --omit)
    RequestInfo info = {};
};

extern Round round;

// Called by the handler when a request has been accepted: the first step of a round.
void begin_round(int connection, int self, void *frame);
// For the handler: true if the thread was called to lead, or to run its callbacks, and did so.
bool take_part(int self, void *frame, uint32_t generation);
// Whether a thread that Cryo signalled is to park.
bool may_park();
// After a parked thread was released: runs hooks and waits at the hold barrier.
void after_park(uint32_t barrier);

// Gives slots to the threads that wait in their callbacks; they park by themselves.
void park_waiting_clients();
// Answers the requester until it resumes the program or hangs up.
void serve_round();
// The image is taken, or not: callbacks continue. True if there were none, so the round is over.
bool end_image(bool restarted);

// Runs a client's callbacks down to the innermost cr_checkpoint(); returns that call's result.
int run_callbacks(Client &client);
// For libcr's own thread, in stage `threads`.
void run_thread_callbacks(Client &client);
// Adds processes to the request. −EOPNOTSUPP: the requester's release is too old for that.
int forward_round(int scope, int target);
// For a thread that ends inside its callbacks.
void abandon_callbacks(Client &client);
void forget_callback_lock(); // in a child, which may have inherited it locked
// In the child after a fork.
void forget_round();
int client_status();

// critical.cpp
void prepare_sections(); // in a new client, a restored process, a forked child
bool anybody_inside();
void close_gate();
void open_gate();
// Called as a thread leaves a critical section: true if it was the last one inside, and the caller
// is the one to continue the round.
bool may_go_on();
int enter_cs(int id, bool only_if_at_once);
int leave_cs(int id);
int enter_request(int id); // interface.hpp
int leave_request(int id);
// Guards changes to the callbacks: a critical section of the calling thread; refused in callbacks.
int enter_change(Client **client);
void leave_change(Client &client);
void drop_critical_sections(Client &client);

// hold.cpp
int register_hook(int event, cr_hook_fn_t hook, cr_hook_fn_t *before);
int hold_ctrl(int scope, int flags, int *before);
void run_hook(const Client *client, int outcome);
bool is_held(const Client *client, int outcome);

// callback_thread.cpp, which is not async-signal-safe but for has_callback_thread
long need_callback_thread(); // waits until there is one
bool has_callback_thread();  // may be called in the handler
void callback_thread_after_fork();

void wait_while(std::atomic<uint32_t> &word, uint32_t value, long ns = 0);
void wake_all(std::atomic<uint32_t> &word);

} // namespace cryo::agent
