// SPDX-License-Identifier: Apache-2.0
// One round, from the accepted request until the last thread has left its callbacks.
#include "agent/round.hpp"
#include "agent/hearing.hpp"
#include "agent/kept_numbers.hpp"
#include "protocol/decode.hpp"
#include "sys/clock.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <linux/futex.h>
#include <poll.h>
#include <sys/socket.h>

namespace cryo::agent {

constinit Round round;

namespace {

constexpr int no_connection = -1;

Stage stage()
{
    return static_cast<Stage>(round.stage.load());
}

void set_stage(Stage to)
{
    round.stage.store(static_cast<uint32_t>(to));
    wake_all(round.stage);
}

void send_reply(Op op, long result, uint64_t value, uint64_t count = 0)
{
    const Reply answer = {protocol_magic, protocol_version, op, result, value, count};
    if (const int to = kept_or_none(round.connection); to >= 0)
        send_packet(to, &answer, sizeof(answer));
}

// The requester, or the program in its place.
bool hung_up()
{
    pollfd look = {kept_or_none(round.connection), POLLIN, 0};
    return round.connection >= 0 && (look.fd < 0 || (sys::call(SYS_poll, &look, 1, 0) > 0 &&
                                                     (look.revents & (POLLHUP | POLLERR)) != 0));
}

// The request's details, for callbacks to ask. A requester of another release may skip Prepare.
void read_request()
{
    Incoming in;
    round.info = {};
    round.features = 0;
    round.prepared = false;
    const int from = kept_or_none(round.connection);
    const long n = receive_packet(from, &in, sizeof(in), MSG_PEEK | MSG_TRUNC);
    if (is_request(in, n) && in.head.op == Op::prepare) {
        receive_packet(from, &in, sizeof(in));
        receive_packet(from, &round.info, sizeof(round.info));
        round.info.dest[sizeof(round.info.dest) - 1] = 0;
        PrepareRequest request;
        if (const long refused = decode_request(in, n, request); refused != 0)
            vote(0, static_cast<int>(-refused));
        round.features = request.features;
        round.prepared = !line.is_silent;
    }
    // The limit stays until here, since a requester may fall silent between the two packets, too.
    if (line.is_silent)
        vote(0, ETIME);
    else
        limit_line(kept_or_none(round.connection),
                   round.info.silence_ms != 0 ? round.info.silence_ms : default_silence_ms);
}

bool has_callbacks(const Client &client)
{
    for (uint32_t i = 0; i < client.callbacks.count; i++) {
        if (client.callbacks.items[i].fn != nullptr)
            return true;
    }
    return false;
}

bool is_thread_alive(const Client &client)
{
    return sys::call(SYS_tgkill, sys::call(SYS_getpid), client.tid.load(), 0) != -ESRCH;
}

// Makes other threads with SIGNAL-context callbacks begin them; the caller begins its own itself.
void call_up_others(int self)
{
    for (Client *client = first_client(); client != nullptr; client = client->next) {
        const int32_t tid = client->tid.load();
        client->waiting.store(0);
        if (tid == 0 || tid == self || client->thread_context || !has_callbacks(*client))
            continue;
        round.callbacks = true;
        round.live.fetch_add(1);
        client->called_up.store(1);
        if (call_thread(tid) == -ESRCH && client->called_up.exchange(0) == 1) {
            round.live.fetch_sub(1);
            drop_client(*client);
        }
    }
}

// The number of threads still in their callbacks. Drops clients whose threads have ended.
size_t still_busy(long waited, Suspect &suspect)
{
    size_t busy = 0;
    bool watched = false;
    for (Client *client = first_client(); client != nullptr; client = client->next) {
        const bool begins = client->called_up.load() != 0;
        const bool runs = client->running && !client->leads && !client->thread_context &&
                          client->round == round.number.load() && client->waiting.load() == 0;
        if (client->tid.load() == 0 || (!begins && !runs))
            continue;
        if (!is_thread_alive(*client)) {
            client->called_up.store(0);
            client->running = false;
            round.live.fetch_sub(1);
            drop_client(*client);
            continue;
        }
        busy++;
        const int tid = client->tid.load();
        const bool watches = begins && waited > usual_arrival_ns && !watched &&
                             (suspect.tid == 0 || suspect.tid == tid);
        if (begins && (waited > arrival_limit_ns || (watches && is_deaf(suspect, tid))))
            vote(0, EBUSY);
        watched = watched || (watches && suspect.tid == tid);
    }
    if (!watched)
        suspect = {};
    return busy;
}

void await_votes()
{
    const long start = sys::monotonic_ns();
    Suspect suspect;
    for (;;) {
        const uint32_t seen = state.arrivals.load();
        const size_t busy = still_busy(sys::monotonic_ns() - start, suspect);
        if (busy == 0 || round.vote.load() != 0)
            return;
        wait_while(state.arrivals, seen, 20'000'000);
        if (hung_up())
            vote(0, ECANCELED);
    }
}

// From here on cr_checkpoint() returns. Threads that have not begun callbacks need not begin.
void settle(int outcome)
{
    round.outcome.store(outcome);
    for (Client *client = first_client(); client != nullptr; client = client->next) {
        if (client->called_up.exchange(0) == 1)
            round.live.fetch_sub(1);
    }
    set_stage(Stage::released);
}

[[noreturn]] void die()
{
    for (;;)
        sys::call(SYS_kill, sys::call(SYS_getpid), SIGKILL);
}

int vote_kind(int vote)
{
    return vote >> 16;
}

int vote_code(int vote)
{
    return vote & 0xffff;
}

void answer_prepare()
{
    const int vote = round.vote.load();
    if (round.prepared)
        send_reply(Op::prepare, -vote_code(vote),
                   static_cast<uint64_t>(vote_kind(vote)) | (round.callbacks ? 1U << 8 : 0));
}

// A permanent failure ends the process, once the requester has got the reply.
void obey_vote()
{
    if (vote_kind(round.vote.load()) == CR_CHECKPOINT_PERM_FAILURE)
        die();
}

void finish_round()
{
    const int failure = round.failure.load();
    const bool restarted = round.outcome.load() > 0;
    if (restarted && round.callbacks)
        tell_end(failure);
    else if (round.callbacks)
        send_reply(Op::done, -failure, 0);
    if (failure != 0)
        die();
    give_up(round.connection);
    round.connection = no_connection;
    round.stage.store(static_cast<uint32_t>(Stage::idle));
    round.signalled = false;
    round.barrier.fetch_add(1);
    open_gate();
    state.active.store(0, std::memory_order_release);
    wake_all(round.barrier);
    // Another request may have arrived that no thread has accepted.
    pollfd look = {state.listener, POLLIN, 0};
    if (sys::call(SYS_poll, &look, 1, 0) > 0)
        call_thread(static_cast<int>(sys::call(SYS_gettid)));
}

void leave_round(const Client *client, uint32_t barrier)
{
    const int outcome = round.outcome.load();
    run_hook(client, outcome);
    if (round.live.fetch_sub(1) == 1)
        finish_round();
    else if (is_held(client, outcome))
        wait_while(round.barrier, barrier);
}

void lead_round(int self, void *frame)
{
    const uint32_t barrier = round.barrier.load();
    Client *client = self_client();
    const bool from_thread = client != nullptr && client->thread_context;
    round.live.fetch_add(1);
    if (!from_thread)
        read_request();
    round.signalled = true;
    set_stage(Stage::signals);
    call_up_others(self);
    if (client != nullptr && !from_thread && client->tid.load() == self && has_callbacks(*client)) {
        round.callbacks = true;
        client->frame = frame;
        client->leads = true;
        run_callbacks(*client);
        if (client->round != round.number.load())
            return; // a child forked in a callback
        client->leads = false;
    } else if (lead_here(self, frame) && !round.callbacks) {
        run_hook(client, round.outcome.load());
        return; // the round is over: there were no callbacks
    }
    if (from_thread)
        round.live.fetch_sub(1); // its callbacks have not ended yet
    else
        leave_round(client, barrier);
}

void go_on(int self, void *frame)
{
    if (hung_up()) {
        settle(-ECANCELED);
        finish_round();
    } else if (thread_callbacks().count == 0) {
        lead_round(self, frame);
    } else if (!has_callback_thread()) {
        read_request();
        vote(0, ENOMEM);
        refuse();
        finish_round();
    } else {
        round.live.store(1);
        round.callbacks = true;
        set_stage(Stage::threads);
    }
}

} // namespace

void wait_while(std::atomic<uint32_t> &word, uint32_t value, long ns)
{
    timespec limit = {ns / 1'000'000'000, ns % 1'000'000'000};
    while (word.load() == value) {
        sys::call(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, ns > 0 ? &limit : nullptr, 0, 0);
        if (ns > 0)
            return;
    }
}

void wake_all(std::atomic<uint32_t> &word)
{
    sys::call(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
}

void vote(int kind, int code)
{
    const int32_t mine = kind << 16 | code;
    int32_t first = 0;
    if (!round.vote.compare_exchange_strong(first, mine) && kind == CR_CHECKPOINT_PERM_FAILURE)
        round.vote.store(mine);
}

void begin_round(int connection, int self, void *frame)
{
    round.connection = connection;
    begin_line(connection);
    round.number.fetch_add(1);
    round.vote.store(0);
    round.failure.store(0);
    round.live.store(0);
    round.callbacks = false;
    round.signalled = false;
    if (round.omit)
        vote(CR_CHECKPOINT_OMIT, CR_EOMITTED);
    send_reply(Op::accepted, 0, 0, all_features);
    close_gate();
    round.stage.store(static_cast<uint32_t>(Stage::waiting));
    if (may_go_on())
        go_on(self, frame);
}

bool take_part(int self, void *frame, uint32_t generation)
{
    Client *client = self_client();
    if (client == nullptr || client->tid.load() != self)
        return false;
    const uint32_t barrier = round.barrier.load();
    int32_t called = self;
    if (round.kicked.compare_exchange_strong(called, 0)) {
        if (client->thread_context)
            lead_round(self, frame);
        else
            go_on(self, frame);
        return true;
    }
    if (client->called_up.load() == 0)
        return false;
    client->frame = frame;
    client->generation = generation;
    client->leads = false;
    client->round = round.number.load();
    client->running = true; // set before called_up is cleared: one of them must be seen
    if (client->called_up.exchange(0) == 0) {
        client->running = false;
        return false;
    }
    run_callbacks(*client);
    if (client->round == round.number.load())
        leave_round(client, barrier);
    return true;
}

// A thread that was signalled for a stop that is over must not park.
bool may_park()
{
    return stage() == Stage::stopping;
}

void after_park(uint32_t barrier)
{
    const Client *client = self_client();
    const int outcome = round.outcome.load();
    if (client == nullptr || !client->thread_context)
        run_hook(client, outcome);
    if (round.live.load() != 0 && is_held(client, outcome) &&
        (client == nullptr || !client->thread_context))
        wait_while(round.barrier, barrier);
}

bool lead_here(int self, void *frame)
{
    await_votes();
    if (round.vote.load() != 0) {
        refuse();
        return false;
    }
    lead(self, frame);
    return true;
}

int lead_from_thread(Client &client)
{
    if (round.vote.load() == 0) {
        const int32_t tid = client.tid.load();
        round.kicked.store(tid);
        call_thread(tid);
        if (stage() == Stage::threads) { // a callback has blocked the signal
            round.kicked.store(0);
            vote(0, EBUSY);
        }
    }
    if (round.vote.load() != 0 && stage() != Stage::released)
        refuse();
    return round.outcome.load();
}

int wait_for_image(Client &client)
{
    client.waiting.store(1);
    state.arrivals.fetch_add(1);
    wake_all(state.arrivals);
    wait_while(round.stage, static_cast<uint32_t>(Stage::signals));
    if (stage() == Stage::stopping)
        park(client.tid.load(), client.frame, client.generation);
    client.waiting.store(0);
    return round.outcome.load();
}

void refuse()
{
    answer_prepare();
    if (round.connection >= 0)
        serve(round.connection); // until the requester hangs up
    obey_vote();
    settle(-vote_code(round.vote.load()));
}

void leave_round_without_hold()
{
    if (round.live.fetch_sub(1) == 1)
        finish_round();
}

void park_waiting_clients()
{
    for (const Client *client = first_client(); client != nullptr; client = client->next) {
        if (client->waiting.load() == 0 || state.threads == max_threads)
            continue;
        Slot &slot = state.slots[state.threads];
        slot.facts.tid = client->tid.load();
        slot.arrived.store(0, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        __atomic_store_n(&state.threads, state.threads + 1, __ATOMIC_RELEASE);
    }
    set_stage(Stage::stopping);
}

void serve_round()
{
    answer_prepare();
    serve(round.connection);
}

bool end_image(bool restarted)
{
    if (restarted)
        round.connection = no_connection;
    settle(restarted ? 1 : round.result);
    if (round.callbacks)
        return false;
    round.live.store(0);
    finish_round();
    return true;
}

void run_thread_callbacks(Client &client)
{
    read_request();
    run_callbacks(client);
    if (client.round != round.number.load())
        return;
    run_hook(&client, round.outcome.load());
    leave_round_without_hold();
}

int forward_round(int scope, int target)
{
    if (!round.prepared || !has(round.features, Feature::forward))
        return -EOPNOTSUPP;
    send_reply(Op::forward, 0, static_cast<uint64_t>(target), static_cast<uint64_t>(scope));
    return 0;
}

int client_status()
{
    const Client *client = self_client();
    if (client == nullptr)
        return -CR_ENOINIT;
    if (client->running)
        return CR_STATE_ACTIVE;
    if (round.gate.load() == 0)
        return CR_STATE_IDLE;
    return round.signalled ? CR_STATE_ACTIVE : CR_STATE_PENDING;
}

void forget_round()
{
    round.connection = no_connection;
    round.number.fetch_add(1);
    round.stage.store(0);
    round.gate.store(0);
    round.live.store(0);
    round.kicked.store(0);
    round.signalled = false;
    forget_clients();
}

} // namespace cryo::agent
