// SPDX-License-Identifier: Apache-2.0
//
// The rank engine: one rank's part in checkpoints, between the wrappers and the bookmark exchange.
// It counts what the wrappers send and receive, keeps the clocks of collectives, receives messages
// from the tree on a signal, and stops the program where the exchange requires it.
//
//     begin(hooks);                 // after MPI_Init; from here on `engine_counts` is true
//     ...
//     {                             // a wrapper (inside.hpp may stop it before and after)
//         Sent sent(comm, dest, count, type);
//         return sent.done(call(stock.Send, ...));
//     }
//     end();                        // in MPI_Finalize, after the library's own
//
// If the signal arrives outside MPI, the program stops at once. If it arrives inside, the handler
// only processes the messages, which needs no library, and the wrapper does the rest.
#pragma once

#include "mpi/rank/heard.hpp"
#include "mpi/rank/hooks.hpp"
#include "mpi/rank/inside.hpp"
#include "mpi/rank/request.hpp"
#include "mpi/rank/stock_mpi.hpp"

#include <pthread.h>

namespace cryo::mpi::rank {

class Engine
{
  public:
    Engine(const Hooks &hooks, bookmark::WorldRank self, uint32_t ranks);
    Engine(const Engine &) = delete;
    Engine &operator=(const Engine &) = delete;

    bookmark::Rank &rank() { return rank_; }
    bookmark::Receives &receives() { return rank_.receives(); }
    StockMpi &mpi() { return mpi_; }

    void listen() const;
    void close();
    void attend(); // processes the tree's messages, or leaves them to the lock's holder
    void signalled();
    void stand_still();
    bool wants_to_stand();
    void let_serve(); // parks while another thread serves; does not stop by itself
    void report() const;
    void progress(); // drives the library's progress engine
    // Called while an image is awaited: a rank that has not drained yet may need something that
    // only this rank's library knows of, such as a buffered send.
    void help_others() { mpi_.progress(); }
    void rest(unsigned rounds) const;      // pauses briefly in a waiting loop
    bool is_lost() const { return lost_; } // the connection to the tree has ended

    // While this lives, no other thread calls bookmark::Rank or touches the lists of requests.
    // Messages that arrive meanwhile are processed when it ends.
    class Busy
    {
      public:
        explicit Busy(Engine &engine) : engine_(engine) { engine_.lock(); }
        ~Busy() { engine_.unlock(); }
        Busy(const Busy &) = delete;
        Busy &operator=(const Busy &) = delete;

      private:
        Engine &engine_;
    };

  private:
    static constexpr uint32_t free = 0;
    static constexpr uint32_t held = 1;
    static constexpr uint32_t wanted = 2; // held, and a thread sleeps until it is free

    void lock();
    bool try_lock();
    void unlock();
    void give_back();
    void hear();
    void serve_once();
    void decline();
    void take_image();
    void park();
    bool others_run() const;

    Hooks hooks_;
    bookmark::WorldRank self_;
    pthread_t home_; // the thread that initialized MPI
    StockMpi mpi_;
    bookmark::Rank rank_;
    std::atomic<uint32_t> busy_{free};  // the lock behind Busy
    std::atomic<bool> mail_{false};     // messages arrived and are unprocessed
    std::atomic<bool> standing_{false}; // a thread serves a checkpoint
    std::atomic<uint32_t> released_{0}; // a counter; parked threads wait for it to change
    bool lost_ = false;
    uint32_t declined_ = 0; // epoch of the last checkpoint that was declined
    uint64_t drained_ = 0;
    uint64_t images_ = 0;
};

extern Engine *engine __attribute__((visibility("hidden"))); // null: messages are not counted

void begin(const Hooks &hooks);
void end();

// With one thread in MPI the signal handler touches no lists while this thread is inside, so no
// lock is needed.
class Guard
{
  public:
    Guard() : held_(several_threads)
    {
        if (held_)
            new (place_) Engine::Busy(*engine);
    }
    ~Guard()
    {
        if (held_)
            reinterpret_cast<Engine::Busy *>(place_)->~Busy();
    }
    Guard(const Guard &) = delete;
    Guard &operator=(const Guard &) = delete;

  private:
    bool held_;
    alignas(Engine::Busy) char place_[sizeof(Engine::Busy)];
};

// The counters of a communicator, a file or a window; null: it is not counted.
template <class Handle>
bookmark::Comm *counted(Handle handle)
{
    return handle == nullptr ? nullptr : static_cast<bookmark::Comm *>(object_of(handle)->traffic);
}

// Size in bytes of `count` elements in a message.
uint64_t bytes_of(int count, MPI_Datatype type);

// The memory in which the elements of a message lie, gaps included, if they are too many to be
// packed: MPI_Pack counts bytes with int.
struct Span {
    MPI_Aint lower = 0; // where it begins, from the buffer's address
    size_t bytes = 0;   // 0: they can be packed
};
Span span_beyond_packing(const void *buffer, int count, MPI_Datatype type);

// Counts a message that is about to be sent; takes that back if the library refuses it.
class Sent
{
  public:
    Sent(MPI_Comm comm, int dest, int count, MPI_Datatype type) : comm_(counted(comm)), dest_(dest)
    {
        if (comm_ == nullptr || dest < 0 || uint32_t(dest) >= comm_->peer_count() || count < 0)
            comm_ = nullptr;
        else
            comm_->sent(dest, bytes_ = bytes_of(count, type));
    }
    int done(int result)
    {
        if (__builtin_expect(heard_.of(result) != MPI_SUCCESS, 0) && comm_ != nullptr)
            comm_->unsent(dest_, bytes_);
        return result;
    }

  private:
    Heard heard_;
    bookmark::Comm *comm_;
    int dest_;
    uint64_t bytes_ = 0;
};

// Called when a collective of a communicator has failed. If its arguments were rejected, it sent
// nothing, and other ranks may never have called it, so it does not count.
void failed(bookmark::Comm &comm, int error);

// A blocking collective.
class Collective
{
  public:
    template <class Handle>
    explicit Collective(Handle handle)
    {
        if (engine_counts)
            enter(counted(handle));
    }
    ~Collective()
    {
        if (comm_ != nullptr)
            leave();
    }
    Collective(const Collective &) = delete;
    Collective &operator=(const Collective &) = delete;

    // Checks the library's result.
    int over(int result)
    {
        const int error = heard_.of(result);
        if (__builtin_expect(error != MPI_SUCCESS, 0) && comm_ != nullptr)
            failed(*comm_, error);
        return result;
    }

    // Registers the communicator that the collective has created.
    int made(int result, MPI_Comm *place);
    // Registers the file that it has opened.
    int opened(int result, MPI_File *place)
    {
        if (result == MPI_SUCCESS && comm_ != nullptr && *place != MPI_FILE_NULL) {
            object_of(*place)->traffic = comm_;
            comm_->lasting = true;
        }
        return result;
    }

    // Registers the persistent collective (collectives.hpp). `make` recreates it in a new library,
    // with the new handles of its arguments; `needed` are the types and operations among them.
    template <class Make, class... Needed>
    int described(int result, MPI_Request *place, MPI_Comm comm, const Make &make,
                  Needed... needed);

  private:
    void enter(bookmark::Comm *comm);
    static void leave();

    Heard heard_;
    bookmark::Comm *comm_ = nullptr;
    uint64_t ordinal_ = 0;
};

// Recreates a persistent collective after a restart; lives in the engine's memory.
class Maker
{
  public:
    Maker() = default;
    Maker(const Maker &) = delete;
    Maker &operator=(const Maker &) = delete;
    virtual int make(Object *made, MPI_Request *real) const = 0;
    virtual size_t bytes() const = 0;

    Maker *next = nullptr;
    Object *request = nullptr;
    bookmark::Comm *parent = nullptr; // the communicator's
    Object *comm = nullptr;
    static constexpr size_t most_needed = 3;
    Object *needed[most_needed] = {};

  protected:
    ~Maker() = default;
};

template <class Make>
class MakerBy final : public Maker
{
  public:
    explicit MakerBy(const Make &make) : make_(make) {}
    int make(Object *made, MPI_Request *real) const override { return make_(made, real); }
    size_t bytes() const override { return sizeof(*this); }

  private:
    Make make_;
};

void *maker_memory(size_t bytes);
void describe(Object *request, Maker &maker, uint64_t ordinal);

template <class Make, class... Needed>
int Collective::described(int result, MPI_Request *place, MPI_Comm comm, const Make &make,
                          Needed... needed)
{
    if (!engine_counts || result != MPI_SUCCESS || is_null(*place))
        return over(result);
    auto *maker = new (maker_memory(sizeof(MakerBy<Make>))) MakerBy<Make>(make);
    maker->parent = comm_;
    maker->comm = object_of(comm);
    size_t i = 0;
    ((maker->needed[i++] = object_of(needed)), ...);
    describe(object_of(*place), *maker, ordinal_);
    return result;
}

// Counts the start of a non-blocking collective; returns the collective's ordinal.
uint64_t start(bookmark::Comm *comm);
template <class Handle>
uint64_t started(Handle handle)
{
    const Heard from_here;
    return engine_counts ? start(counted(handle)) : 0;
}
// Checks the result of the library's call that follows started().
inline int begun(int result, MPI_Comm comm)
{
    const int error = Heard::since(result);
    if (__builtin_expect(error != MPI_SUCCESS, 0) && engine_counts && counted(comm) != nullptr)
        failed(*counted(comm), error);
    return result;
}

// Tracks a request that the library has created for anything but a message; `queue`: the file of a
// collective file function. Returns `result`.
int track(int result, MPI_Request *place, Use use, const Object *queue);
inline int tracked(int result, MPI_Request *place, Use use = Use::other, MPI_File queue = nullptr)
{
    return engine_counts && place != nullptr ? track(result, place, use, object_of(queue)) : result;
}

// Tracks a persistent request that is the library's, as its communicator is not counted. Returns
// `result`.
int track_persistent(int result, MPI_Request *place);

// Notes a communicator whose messages are not counted: this rank can no longer be saved.
int uncounted(int result, const MPI_Comm *place, const char *function);
// Notes any other reason for that.
void hinder(const char *what);
// Null, or the reason why this rank cannot be saved.
const char *hindrance();

// Registers the copy that MPI_Comm_idup has begun to make, as this collective of `comm`.
int copied(int result, MPI_Comm comm, uint64_t ordinal, const MPI_Comm *place,
           MPI_Request *request);

// Keep types and operations that a request needs, even if the program frees them.
void pin(Object *object);
void unpin(Object *object);
void pin(Request &request, MPI_Datatype type);
void unpin(Request &request);

} // namespace cryo::mpi::rank
