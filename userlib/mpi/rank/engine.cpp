// SPDX-License-Identifier: Apache-2.0
// RULE for this file: except begin() and end(), it may run in a signal handler, and the interrupted
// code may hold any lock of the program.
#include "mpi/rank/engine.hpp"
#include "agent/interface.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/fruitless.hpp"
#include "mpi/rank/meetings.hpp"
#include "mpi/rank/memory.hpp"
#include "mpi/rank/windows.hpp"
#include "mpi/stock/fatal.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <ctime>
#include <linux/futex.h>
#include <poll.h>

namespace cryo::mpi {

using capsule::call;

namespace rank {

__thread int depth __attribute__((tls_model("initial-exec"))); // see threads.cpp
volatile bool must_attend;
unsigned long mpi_calls;
Fruitless<MPI_Request> fruitless_tests;
Fruitless<long> fruitless_probes;
bool engine_counts;
bool several_threads;
std::atomic<int> running{0};
std::atomic<int> copies_under_way{0};
Engine *engine;

namespace {

constexpr int nudge = SIGURG; // ignored by a program that does not expect it

const char *hindered; // why this rank cannot be saved any more; null: it can

// Preserves the program's errno.
class KeepErrno
{
  public:
    KeepErrno() : kept_(errno) {}
    ~KeepErrno() { errno = kept_; }
    KeepErrno(const KeepErrno &) = delete;
    KeepErrno &operator=(const KeepErrno &) = delete;

  private:
    int kept_;
};

// A stopped thread drives the library's progress; with idups under way only waits may do that.
bool only_waits_stand()
{
    return abi::copies_take_steps && copies_under_way > 0;
}

} // namespace

const char *hindrance()
{
    return hindered;
}

void hinder(const char *what)
{
    if (hindered == nullptr)
        hindered = what;
}

int uncounted(int result, const MPI_Comm *place, const char *function)
{
    if (engine_counts && result == MPI_SUCCESS && place != nullptr && *place != nullptr &&
        object_of(*place) != null_object(Kind::Comm))
        hinder(function);
    return result;
}

Engine::Engine(const Hooks &hooks, bookmark::WorldRank self, uint32_t ranks)
    : hooks_(hooks), self_(self),
      rank_({.self = self,
             .ranks = ranks,
             .threads = several_threads ? bookmark::Threads::many : bookmark::Threads::one,
             .memory = &memory()},
            *hooks.channel, mpi_)
{
    home_ = pthread_self();
    mpi_.begin();
    // Marked active, so that an invalid request handle reaches the library, which rejects it.
    begin_record<Request>(no_object(Kind::Request))->active = true;
}

bool Engine::try_lock()
{
    if (memory().busy() || capsule::is_keeping())
        return false; // this may be a signal handler that interrupted one of them
    if (several_threads) {
        uint32_t expected = free;
        return busy_.compare_exchange_strong(expected, held, std::memory_order_acquire);
    }
    if (busy_.load(std::memory_order_relaxed) != free)
        return false;
    busy_.store(held, std::memory_order_relaxed);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    return true;
}

void Engine::lock()
{
    if (!several_threads) {
        busy_.store(held, std::memory_order_relaxed);
        std::atomic_signal_fence(std::memory_order_seq_cst);
        return;
    }
    uint32_t expected = free;
    if (busy_.compare_exchange_strong(expected, held, std::memory_order_acquire))
        return;
    while (busy_.exchange(wanted, std::memory_order_acquire) != free)
        sys::call(SYS_futex, &busy_, FUTEX_WAIT_PRIVATE, wanted, nullptr, nullptr, 0);
}

void Engine::give_back()
{
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (!several_threads)
        busy_.store(free, std::memory_order_relaxed);
    else if (busy_.exchange(free, std::memory_order_release) == wanted)
        sys::call(SYS_futex, &busy_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    std::atomic_signal_fence(std::memory_order_seq_cst);
}

void Engine::unlock()
{
    give_back();
    if (__builtin_expect(mail_.load(std::memory_order_relaxed), 0))
        attend();
}

void Engine::attend()
{
    const KeepErrno kept;
    do {
        if (!try_lock()) {
            mail_ = true; // the lock's holder processes it, or the wrapper that takes memory
            return;
        }
        hear();
        give_back();
    } while (mail_);
}

void Engine::hear()
{
    mail_ = false;
    const bool heard = lost_ || hooks_.channel->receive(rank_);
    if (rank_.pending())
        must_attend = true; // stand_still() may have found nothing just before and cleared it
    if (heard) {
        decline();
        return;
    }
    // Without a tree there is no checkpoint: act as if it had been abandoned.
    lost_ = true;
    const bookmark::Message gone(bookmark::MessageType::abandon, rank_.epoch(), &memory());
    const auto bytes = bookmark::pack(gone, &memory());
    rank_.handle(bytes);
}

// Reports a hindrance as soon as a checkpoint is requested: this rank may wait in the library,
// unknown to the tree, for a rank that would otherwise stop.
void Engine::decline()
{
    const char *what = hindrance();
    if (what == nullptr || rank_.phase() != bookmark::Rank::Phase::asked ||
        declined_ == rank_.epoch())
        return;
    declined_ = rank_.epoch();
    say("rank %u cannot be saved, because of this: %s", self_, what);
    rank_.decline();
}

bool Engine::others_run() const
{
    return several_threads && running > (depth > 0 ? 1 : 0);
}

bool Engine::wants_to_stand()
{
    const Busy busy(*this);
    return rank_.pending() && rank_.must_hold() && !only_waits_stand();
}

// In a signal handler, or in a function of the channel.
void Engine::signalled()
{
    const KeepErrno kept;
    must_attend = true;
    mail_ = true;
    if (busy_ != free)
        return; // the lock's holder processes it
    if (!capsule::entered() && pthread_equal(pthread_self(), home_) == 0) {
        // This thread never calls MPI. Interrupt the one that initialized MPI, rather than wait for
        // that thread's next call.
        pthread_kill(home_, nudge);
        return;
    }
    if (!capsule::entered() && depth > 0)
        return; // it is entering: the wrapper checks once inside
    if (depth == 0 && !standing_ && !others_run()) {
        // Act like an MPI function, because windows may have to be flushed in one: messages that
        // arrive meanwhile are processed there, and this does not stop recursively.
        const Inside inside;
        return;
    }
    ready(); // this thread may not have entered since a restart
    attend();
}

void Engine::stand_still()
{
    const KeepErrno kept;
    if (mail_)
        attend();
    if (rank_.pending())
        flush_windows();
    const bool serves = rank_.pending();
    if (serves && standing_.exchange(true)) {
        // A signal handler outside MPI came second: its thread is not counted as running.
        if (several_threads && depth > 0)
            park();
        return;
    }
    for (unsigned rounds = 0; serves && rank_.pending() && rank_.must_hold(); rounds++) {
        // A thread that enters MPI is counted first and checks this flag afterwards: either it is
        // counted here, or it stops.
        must_attend = true;
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (!others_run())
            serve_once();
        rest(rounds);
        attend();
    }
    if (serves)
        standing_ = false;
    {
        // Under the lock no other thread can begin a checkpoint between the check and the reset.
        const Busy busy(*this);
        if (!rank_.pending() && !mail_)
            must_attend = false;
    }
    if (serves && several_threads) {
        released_++;
        sys::call(SYS_futex, &released_, FUTEX_WAKE_PRIVATE, INT32_MAX, nullptr, nullptr, 0);
    }
}

void Engine::serve_once()
{
    {
        const Busy busy(*this);
        decline();
        rank_.serve();
        // The tree may still wait for a send of this rank: one whose request it holds, or one that
        // only the library knows, such as a buffered send.
        if (rank_.phase() >= bookmark::Rank::Phase::drained) {
            mpi_.settled(true);
            mpi_.progress();
        }
    }
    if (rank_.phase() == bookmark::Rank::Phase::drained)
        take_image();
}

void Engine::take_image()
{
    const Busy busy(*this);
    TookImage took = TookImage::saved;
    drained_ += rank_.drained_messages();
    images_++;
    if (const char *what = hindrance()) {
        say("rank %u cannot be saved, because of this: %s", self_, what);
        took = TookImage::failed;
    } else if (hooks_.take_image != nullptr)
        took = hooks_.take_image(hooks_.data);
    if (took == TookImage::restored) {
        capsule::Refusal why;
        if (hooks_.revive == nullptr || !hooks_.revive(hooks_.data, why))
            fatal("the MPI library cannot be opened again: %s", why.text);
        mpi_.begin();
        restore_meetings();
        lost_ = false;
        rank_.restarted();
        mail_ = true;
    } else if (rank_.phase() == bookmark::Rank::Phase::drained) {
        rank_.saved(took == TookImage::saved);
    }
}

// Waits briefly for the tree or for the library; longer as the rounds go on.
void Engine::rest(unsigned rounds) const
{
    if (rounds < 50 || lost_) {
        sys::call(SYS_sched_yield);
        return;
    }
    pollfd waited = {.fd = hooks_.channel->descriptor(), .events = POLLIN, .revents = 0};
    timespec moment = {.tv_sec = 0, .tv_nsec = rounds < 1000 ? 50'000 : 500'000};
    sys::call(SYS_ppoll, &waited, 1, &moment, nullptr, 0);
}

void Engine::progress()
{
    const Busy busy(*this);
    mpi_.progress();
}

// For one of several threads in MPI, while another one serves.
void Engine::park()
{
    do {
        running--;
        const uint32_t before = released_;
        while (standing_ && released_ == before) {
            const timespec moment = {.tv_sec = 0, .tv_nsec = 1'000'000};
            sys::call(SYS_futex, &released_, FUTEX_WAIT_PRIVATE, before, &moment, nullptr, 0);
        }
        running++;
    } while (standing_); // a new server may not have counted this thread as running
    ready();             // in a restored copy the library is a new one
}

// Parks if another thread serves; does not stop by itself.
void Engine::let_serve()
{
    attend();
    if (several_threads && standing_)
        park();
}

void stand_still()
{
    if (only_waits_stand())
        engine->let_serve();
    else
        engine->stand_still();
}

namespace {

void hear_of_it()
{
    if (engine_counts)
        engine->signalled();
}

// RULE: called with either world's thread-local storage.
void on_arrival()
{
    void *fs = capsule::current_fs();
    if (capsule::owns(fs) && capsule::way_back(fs) != nullptr)
        capsule::call_home(&hear_of_it);
    else
        hear_of_it();
}

// Runs in the thread that initialized MPI, perhaps inside the capsule: with the capsule's storage
// it would not recognize itself and would signal itself for ever. A system call interrupted outside
// MPI is resumed as if nothing had happened.
void on_nudge(int /*signal*/, siginfo_t * /*info*/, void *frame)
{
    on_arrival();
    const agent::Interface *const *agent = &agent::cryo_agent_interface;
    if (agent != nullptr && (*agent)->size > offsetof(agent::Interface, resume_call))
        (*agent)->resume_call(frame);
}

} // namespace

void Engine::listen() const
{
    struct sigaction action = {};
    action.sa_sigaction = on_nudge;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    sigaction(nudge, &action, nullptr);
    hooks_.channel->listen(on_arrival);
}

void Engine::close()
{
    if (rank_.pending()) {
        bookmark::Message no(bookmark::MessageType::abandon, rank_.epoch(), &memory());
        no.state.doing = bookmark::Doing::gone;
        hooks_.channel->send(bookmark::pack(no, &memory()));
    }
    hooks_.channel->close();
}

void begin(const Hooks &hooks)
{
    int self = 0;
    int ranks = 0;
    int level = MPI_THREAD_SINGLE;
    const auto world = static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real);
    call(stock.Comm_rank, world, &self);
    call(stock.Comm_size, world, &ranks);
    call(stock.Query_thread, &level);
    several_threads = level >= MPI_THREAD_SERIALIZED;
    if (several_threads)
        running = 1; // this one, which is in MPI_Init

    constexpr bookmark::CommId world_id = 1;
    constexpr bookmark::CommId self_id = 2;
    alignas(Engine) static char place[sizeof(Engine)];
    engine = new (place) Engine(hooks, uint32_t(self), uint32_t(ranks));
    const auto count = uint32_t(ranks);
    const auto me = bookmark::WorldRank(self);
    auto add = [](Object *object, bookmark::Comm &comm) {
        object->traffic = &comm;
        comm.user = object;
    };
    add(object_of(MPI_COMM_WORLD), engine->rank().made(world_id, count, {}, count));
    add(object_of(MPI_COMM_SELF),
        engine->rank().made(bookmark::derive_comm_id(self_id, me, me), 1, {&me, 1}, 1));

    engine_counts = true;
    engine->listen();
}

void end()
{
    engine_counts = false;
    must_attend = false;
    engine->close();
    engine->report();
}

} // namespace rank

void Inside::left_late()
{
    while (rank::engine_counts && rank::engine->wants_to_stand())
        const Inside again; // stops here
}

} // namespace cryo::mpi
