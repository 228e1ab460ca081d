// SPDX-License-Identifier: Apache-2.0
//
// A rank's connection to the daemon of its node: the Link of its bookmark::Rank, and the way to
// have its image taken.
//
//     coord::RankSide link;                        // static: there is one in a process
//     if (link.connect(environ, world_rank, world_size) < 0)
//         ...                                      // link.why(): runs on, and cannot be saved
//     bookmark::Rank rank(config, link, mpi);
//     link.on_arrival(arrived, engine);            // called in a signal handler
//     void arrived(void *engine)                   // "something is there to be received"
//     {
//         if (no call is inside the rank engine)
//             link.receive(deliver, engine);       // calls deliver() for each message
//     }
//     void deliver(void *engine, Bytes message) { rank.handle(message); }
//
// When the daemon is gone, a checkpoint that is under way ends: an "abandon" of it is delivered.
// The same happens when the daemon is silent for longer than it announced: it may be stopped.
//
//     rank.saved(link.take_image() == TookImage::saved) // in phase drained; in the restored copy
//                                                       // it returns `restarted`, unconnected:
//     link.connect(new_environment, rank, size);  rank.restarted();
//
// Uses no thread, no memory of the program's heap, and no libc except in connect();
// everything but connect() may be called in a signal handler. A signal that arrives
// during another call is not lost: the arrival is reported when that call ends.
#pragma once

#include "bookmark/rank.hpp"
#include "coord/frame.hpp"

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace cryo::coord {

enum class TookImage : uint8_t {
    failed,    // no image: rank.saved(false)
    saved,     // rank.saved(true)
    restarted, // this is the restored copy
};

// Bytes in anonymous memory of their own.
class ByteStore
{
  public:
    bool append(const void *bytes, size_t count);
    char *room(size_t count); // after the contents; null: no memory
    void grew(size_t count) { used_ += count; }
    void drop_front(size_t count);
    void clear() { used_ = 0; }
    const char *data() const { return data_; }
    size_t size() const { return used_; }

  private:
    char *data_ = nullptr;
    size_t used_ = 0;
    size_t capacity_ = 0;
};

class RankSide final : public bookmark::Link
{
  public:
    using Arrived = void (*)(void *argument);
    using Deliver = void (*)(void *argument, bookmark::Bytes message);

    constexpr RankSide() = default;

    // Finds the job in the environment (CRYO_JOB, as cr_run and ompi-restart set it for what
    // mpirun starts), starts the node's daemon if there is none, and introduces this rank. 0,
    // or −errno with a sentence in why(): −ENOENT when there is no job, which is not an error.
    // After a restart, to be called again with the new job's environment.
    int connect(const char *const *environment, uint32_t rank, uint32_t ranks);
    const char *why() const { return why_; }
    bool connected() const { return fd_ >= 0; }
    int descriptor() const { return fd_; }

    // Called in a handler of the checkpoint signal, in any thread that does not block it, with that
    // signal open again (an image may be taken in there) and all others blocked.
    void on_arrival(Arrived arrived, void *argument);

    // Passes every message that has arrived to `deliver`. False: the daemon is gone, or never was.
    bool receive(Deliver deliver, void *argument);
    // Queues the message; what the socket does not take at once is sent by later calls.
    void send(bookmark::Bytes message) override;
    // Waits until there is something to receive, or until the time is up; 0: something is there.
    int wait(int milliseconds);

    // In phase drained, from the serving thread: returns when the image has been taken
    // (with a fork snapshot: when the frozen copy is made), or has failed; or, if ranks
    // are held, when the checkpoint is over. Then `meanwhile` is called repeatedly once
    // the rank is frozen: other ranks may need something of it to get as far.
    TookImage take_image(void (*meanwhile)() = nullptr);

    // Ends the connection, and says that all is well: MPI_Finalize.
    void disconnect();

  private:
    // Only code in here may touch the buffers. A handler that interrupts such code sets a flag.
    class Inside
    {
      public:
        explicit Inside(RankSide &side) : side_(side) { side_.inside_.fetch_add(1); }
        Inside(const Inside &) = delete;
        Inside &operator=(const Inside &) = delete;
        ~Inside()
        {
            if (side_.inside_.fetch_sub(1) == 1 && side_.missed_.exchange(false) &&
                side_.arrived_ != nullptr)
                side_.arrived_(side_.argument_);
        }

      private:
        RankSide &side_;
    };
    int connect_in_job(const char *const *environment, uint32_t rank, uint32_t ranks);
    int adopt(int socket);
    static int out_of_the_way(int socket);
    int take_leash(int socket);
    void end_unfenced();
    int greet(const char *job, uint32_t rank, uint32_t ranks);
    int fail(int error, const char *thing, const char *cause);
    void watch();
    void note(const char *message, size_t size);
    bool is_ours() const;
    bool pump();
    bool take_frame(FrameKind kind, const char *body, size_t length);
    bool flush();
    bool hears_nothing() const;
    void put(FrameKind kind, const void *body, size_t length);
    void say_farewell();
    void drop_connection();
    void deliver_abandon(Deliver deliver, void *argument) const;
    static void signalled(void *self);

    int fd_ = -1;
    int leash_ = -1;
    bool needs_leash_ = false; // the daemon has said so
    bool refused_ = false;     // likewise
    int pid_ = 0;
    uint32_t restarts_ = 0; // of this process, when it connected
    ByteStore in_, out_, messages_;
    Arrived arrived_ = nullptr;
    void *argument_ = nullptr;
    std::atomic<uint32_t> inside_{0};
    std::atomic<bool> missed_{false};
    bool welcome_ = false;
    bool answered_ = false;
    bool cut_ = false;
    bool may_go_ = false;
    uint32_t epoch_ = 0; // of the checkpoint that was asked for last
    bool asked_ = false; // and is not over
    uint32_t patience_ms_ = 0;
    int64_t heard_ms_ = 0; // when the daemon's last message came
    char why_[256] = {};
};

} // namespace cryo::coord
