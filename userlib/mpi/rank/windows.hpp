// SPDX-License-Identifier: Apache-2.0
//
// Windows of one-sided communication. The library keeps the state of an open epoch where no image
// includes it, so a rank runs on while it has an epoch open: while one of its operations may be
// incomplete, while it holds an exclusive lock, between MPI_Win_post and _wait and between
// _start and _complete. Operations that only need a flush are flushed when a checkpoint comes.
//
//     Operation operation(win, target);         // around the library's call for one operation
//     return operation.over(call(...));
//     const Ending ending(window);              // around the release of a lock
//     finished(*window_of(win), target);        // before the call that completes operations
//
// An epoch is closed before the library's call: a rank stops at the end of a wrapper at the
// earliest, and an operation begun meanwhile opens it again. With several threads in MPI, one may
// flush while another one's operation is on its way to the library: so the target is marked again
// when the library has it. And no thread may flush under a lock that another one is releasing.
//
// A window has a communicator of its own: for its clock, for its members after a restart, and for
// the messages that match post with start and complete with wait. The library's own calls for that
// could not be left when a checkpoint comes.
#pragma once

#include "mpi/rank/heard.hpp"

#include <atomic>

namespace cryo::mpi::rank {

struct Region { // attached to a dynamic window
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
    uint8_t *marks;             // by target
    std::atomic<uint32_t> busy; // number of dirty targets
    std::atomic<uint32_t> shared_locks;
    std::atomic<bool> all_locked;
    std::atomic<uint32_t> ending;  // threads that are releasing locks
    std::atomic<uint32_t> flushed; // threads that are flushing before they stop
    int all_assert;
    bool fenced; // an epoch may follow the last fence
    bool started, exposed;
    int *origins; // ranks that the window is exposed to
    int origin_count;
    MPI_Request *ends; // receives of the origins' completion messages
    int *targets;      // of MPI_Win_start
    int target_count;

    int flavor;
    void *base;
    MPI_Aint size;
    int unit;
    Region *regions;
    // Of a shared window: the library's memory, and the address where the program sees it.
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

// Creates a communicator with the members of `comm`, for a window.
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
        if (__builtin_expect(several_threads, 0) && window_ != nullptr)
            touch(*window_, target_); // a concurrent flush sees the operation, or precedes this
    }
    Operation(const Operation &) = delete;
    Operation &operator=(const Operation &) = delete;

    // Checks the library's result. A refused operation leaves nothing to be flushed.
    int over(int result)
    {
        if (__builtin_expect(heard_.of(result) != MPI_SUCCESS, 0) && is_first_ && !several_threads)
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
    explicit Ending(Window *window) : window_(several_threads ? window : nullptr)
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

// Post, start, complete and wait, implemented with messages.
void expose(Window &window, MPI_Group origins);
void unexpose(Window &window);
bool is_unexposed(Window &window); // does not wait
void meet_targets(Window &window, MPI_Group targets);
void tell_targets(Window &window);
void forget_targets(Window &window);

// Called by a thread that is about to stop: flushes what may be flushed.
void flush_windows();
// Null, or why the window cannot be saved now.
const char *unsettled(const Window &window);

} // namespace cryo::mpi::rank
