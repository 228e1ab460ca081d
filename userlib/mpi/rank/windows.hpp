// SPDX-License-Identifier: Apache-2.0
//
// Windows of one-sided communication. The library keeps what an epoch has not finished where no
// image can have it, so a rank runs on while it has an epoch open: while one of its operations may
// be incomplete, while it holds an exclusive lock, between MPI_Win_post and _wait and between
// _start and _complete. What only waits for a flush is flushed when a checkpoint comes.
//
//     Operation operation(win, target);         // while the library is called for one
//     return operation.over(call(...));
//     const Ending ending(window);              // while a lock is given back
//     finished(*window_of(win), target);        // before what completes operations
//
// Closing comes before the library's call: a rank stands still at the end of a wrapper at the
// earliest, and what begins meanwhile is open again. With several threads in MPI one may flush
// while another one's operation is on its way to the library: so it is marked once more when the
// library has it. And none may flush under a lock that another one gives back.
//
// A window has a communicator of its own: for its clock, for its members after a restart, and for
// the messages by which post and start, complete and wait find each other. The library's own ways
// for that could not be left when a checkpoint comes.
#pragma once

#include "mpi/wrap/heard.hpp"

#include <atomic>

namespace cryo::mpi::rank {

struct Region { // of a dynamic window
    Region *next;
    void *base;
    MPI_Aint size;
};

struct Window {
    enum Mark : uint8_t { dirty = 1, shared_lock = 2, exclusive_lock = 4 };

    Window *older, *newer;
    Object *object;
    MPI_Comm comm; // its own
    int peers;
    uint8_t *marks;             // of each target
    std::atomic<uint32_t> busy; // targets that are dirty
    std::atomic<uint32_t> shared_locks;
    std::atomic<bool> all_locked;
    std::atomic<uint32_t> ending;  // threads that give locks back
    std::atomic<uint32_t> flushed; // by a thread that shall stand still
    int all_assert;
    bool fenced; // an epoch may follow the last fence
    bool started, exposed;
    int *origins; // that the window is exposed to
    int origin_count;
    MPI_Request *ends; // messages by which the origins say that they are done
    int *targets;      // of a start
    int target_count;

    int flavor;
    void *base;
    MPI_Aint size;
    int unit;
    Region *regions;
    // Of a shared one: the library's memory, and where the program has it.
    uintptr_t segment;
    char *alias;
    size_t alias_bytes;
};

inline Window *window_of(MPI_Win win)
{
    return win == nullptr ? nullptr : static_cast<Window *>(object_of(win)->state);
}

inline bool has_target(const Window &window, int target)
{
    return target >= 0 && target < window.peers;
}

// A communicator like `comm`, for a window.
int make_companion(MPI_Comm comm, MPI_Comm *companion);
Window *begin_window(MPI_Win win, MPI_Comm companion);
void end_window(Window &window);

void open_epoch();
void close_epoch();

void touch(Window &window, int target);
void finished(Window &window, int target);

class Operation
{
  public:
    Operation(MPI_Win win, int target) : window_(window_of(win)), target_(target)
    {
        if (window_ != nullptr && !has_target(*window_, target))
            window_ = nullptr;
        if (window_ != nullptr &&
            __builtin_expect((window_->marks[target] & Window::dirty) == 0, 0)) {
            touch(*window_, target);
            is_first_ = true;
        }
    }
    ~Operation()
    {
        if (__builtin_expect(many, 0) && window_ != nullptr)
            touch(*window_, target_); // who flushes sees the operation, or this is after it
    }
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;

    // What the library says of it. One that is refused leaves nothing to be flushed.
    int over(int result)
    {
        if (__builtin_expect(heard_.of(result) != MPI_SUCCESS, 0) && is_first_ && !many)
            finished(*window_, target_);
        return result;
    }

  private:
    Heard heard_;
    Window *window_;
    int target_;
    bool is_first_ = false;
};

class Ending
{
  public:
    explicit Ending(Window *window) : window_(many ? window : nullptr)
    {
        if (window_ != nullptr)
            begin(*window_);
    }
    ~Ending()
    {
        if (window_ != nullptr)
            window_->ending--;
    }
    Ending(const Ending &) = delete;
    Ending &operator=(const Ending &) = delete;

  private:
    static void begin(Window &window);

    Window *window_;
};

void finished_all(Window &window);

// Post, start, complete and wait, as messages.
void expose(Window &window, MPI_Group origins);
void unexpose(Window &window);
bool is_unexposed(Window &window); // asks
void meet_targets(Window &window, MPI_Group targets);
void tell_targets(Window &window);
void forget_targets(Window &window);

// In a thread that shall stand still: flushes what may be flushed.
void flush_windows();
// Null, or why the window cannot be saved now.
const char *unsettled(const Window &window);

} // namespace cryo::mpi::rank
