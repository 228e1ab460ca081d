// SPDX-License-Identifier: Apache-2.0
//
// The agent: what Cryo keeps inside a program that runs under cr_run. Between checkpoints it is
// one listening socket and one signal handler; no thread, no wrapper around a hot call.
//
// RULE for every file of this folder but init.cpp, callback_thread.cpp and interposed_*.cpp: what
// runs between "stop" and "go" is async-signal-safe. No malloc, no stdio, no libc call, no
// thread-local storage (but for one word in clients.cpp), no large frame: only sys::call and memory
// that the agent owns. The test unit.agent_symbols checks what the objects need.
#pragma once

#include "agent/interface.hpp"
#include "agent/lodger.hpp"
#include "agent/protocol.hpp"

#include <atomic>
#include <csignal>
#include <cstddef>

namespace cryo::agent {

constexpr size_t max_threads = 4096;
constexpr int library_signal = 33; // SIGSETXID, glibc's own

struct Slot {
    ThreadFacts facts = {};
    int former_tid = 0; // in a restored copy: the number that the thread had when it was saved
    std::atomic<uint32_t> arrived;
    bool knocked = false; // see library_threads.cpp
    // 0: not yet; 1: the thread has nothing left to do but to return from the handler; 2: so, and
    // what it returns to is a system call that it enters again
    std::atomic<uint32_t> back;
};

struct State {
    int listener = 0; // the control socket, close-on-exec
    int door = 0;     // the file that it is bound to (door.cpp)
    uint64_t listener_inode = 0;
    uint64_t door_inode = 0;
    int signal = 0;                  // the checkpoint signal
    bool on_alternate_stack = false; // its handler takes that of the thread, where there is one
    int pid = 0;
    uint64_t loader = 0;            // where the dynamic loader lies; 0: there is none
    std::atomic<uint32_t> restarts; // this is a restored copy of a restored copy ...
    std::atomic<uint32_t> active;
    std::atomic<uint32_t> arrivals;   // futex: a thread has parked
    std::atomic<uint32_t> generation; // futex: parked threads wait for it to change
    std::atomic<uint32_t> gone;       // futex: threads that have left the park for good
    size_t threads = 0;               // slots in use
    bool knocked = false;             // see library_threads.cpp
    std::atomic<uint32_t> deaf;       // threads that must not be stopped where they are (deaf.hpp)
    std::atomic<uint32_t> knocking;   // the leader is about to send glibc's signal
    SignalAction library_action = {}; // what was replaced for that
    Slot slots[max_threads + 1];      // the last one is the leader's
    ResumeInfo resume = {};
};

extern State state;

extern "C" {
int cryo_context_save(Context *context) __attribute__((returns_twice));
void cryo_signal_return();
long cryo_syscall(long number, long a, long b, long c, long d, long e, long f);
extern const char cryo_syscall_end[]; // behind its `syscall`
long cryo_clone(unsigned long flags, void *stack_top, void (*fn)(void *), void *arg);
}

// door.cpp: the control socket.
void remember_runtime_directory(const char *directory); // of the user; may be null
long open_control();
void forget_control(); // in a child that inherited it
void tell_signal_at_door();

// control.cpp: the signal handler.
void on_signal(int signal, siginfo_t *info, void *frame);
// The checkpoint signal for a thread of ours, so that it is not taken for one of the program's.
long call_thread(int tid);
// Where the program has a handler of its own for the signal, and what came is not Cryo's: runs it.
// Null: nobody knows of one.
extern bool (*run_handler_of_program)(siginfo_t *info, void *frame);
// The kernel's own rt_sigaction; with everything blocked while the handler runs.
long set_handler(int signal, void (*handler)(int, siginfo_t *, void *), SignalAction *old);
// The program wants handlers of the checkpoint signal to be on the alternate stack, or not.
void move_handler(bool to_alternate_stack);
// Stops the program and lets it go on; round.outcome says how it went.
void lead(int self, void *frame);

// stop.cpp: brings every other thread into the handler. 0, or −errno with *blamed = the thread
// that does not come.
long stop_threads(int self, int *blamed);
void release_threads();
bool park(int tid, void *frame, uint32_t generation);
void pass_over(int tid); // this thread: it is the lodger's, and goes on
void fill_facts(ThreadFacts &facts, int tid, void *frame);
void get_policy(Policy &policy, uint64_t address, unsigned flags); // get_mempolicy's MPOL_F_…

// going.cpp: when the threads go on.
void tell_gone(bool enters_call);
void await_gone();
// Reads /proc/self/task/TID/NAME and ends it with NUL. For the leader of a checkpoint.
long read_task(int tid, const char *name, char *to, size_t size);

// library_threads.cpp: threads of the C library that block every signal a program may use.
bool knock_at_library_thread(int tid); // false: it is none
void stop_knocking();

// interrupted_call.cpp: makes a system call that the checkpoint interrupted go on, if it can be.
bool resume_call(void *frame);    // true: a system call is entered next
void keep_time_left(void *frame); // first of all, as the time goes on

// restarted.cpp: the leader of the checkpoint, restored, puts things in order; and, when the other
// threads are on their way, tells cr_restart.
void after_restart();
void tell_alive();
void tell_end(int failure); // of the callbacks

// loader_locks.cpp: where threads have other numbers. The leader, while the others are parked.
void renumber_loader_locks();

// line.cpp: the connection to the checkpointer. When nothing was heard of it, or taken by it, for
// as long as it may be silent, all of these fail at once (−ETIME) until the next one has come.
struct Line {
    uint32_t limit_ms = 0;
    bool is_silent = false;
};
extern Line line;
void begin_line(int connection);
void limit_silence(int fd, uint32_t ms); // of a socket
long send_packet(int to, const void *data, size_t size);
long send_message(int to, const void *message); // a msghdr
long receive_packet(int from, void *to, size_t size, int flags = 0);
long receive_message(int from, void *message, int flags);
long await_room(int pipe); // > 0: there is some
// For a checkpointer that comes back: there will be no image.
void say_called_off(int connection);

// serve.cpp: answers one checkpointer until Resume, or until it is gone; round.result says which.
void serve(int connection);

// descriptors.cpp: the program's descriptors for the checkpointer; what waits in its terminals.
bool send_descriptors(int connection, const Command &command);
bool send_terminal(int connection, const Command &command);

// watches.cpp: what inotify watches.
void remember_watch(const char *path, uint32_t mask);
bool send_watches(int connection, const Command &command);
void forget_watch_lock(); // in a child, which may have inherited it locked

// ipc.cpp: which System V objects the process uses.
void remember_ipc(IpcKind kind, int id, bool undo);
bool send_ipc(int connection, const Command &command);
bool send_queue(int connection, const Command &command);   // queues.cpp
void send_touched(int connection, const Command &command); // touched.cpp
void send_undo(int connection, const Command &command);    // undo.cpp

// tracker.cpp: watches for changes of memory, between one checkpoint and the next.
bool send_tracker(int connection, const Command &command);
long set_watched(const Command &command);
void forget_tracker(bool close_it); // in a child, or after a restart: it is another process's
void count_read();                  // one of our own

// own.cpp: what of the program is Cryo's.
void fill_own_facts(OwnFacts &facts, int connection);
void own_library(const void *inside);
int own_fd(int fd, OwnFdKind kind);
void disown_fd(int fd);
void renew_handles(); // after a restart

// arrivals.cpp: a descriptor that somebody else listens to.
int watch_fd(int fd, void (*arrived)(void *), void *argument);
bool tell_arrival(int fd); // false: nobody listens to it
void renew_watched();      // the checkpoint signal is another one
void forget_watched();

// lodging.cpp: what in the process is not the program's (lodger.hpp).
void set_lodger(const Lodger *whose);
extern std::atomic<const Lodger *> lodger;
inline bool has_lodger()
{
    return lodger.load(std::memory_order_acquire) != nullptr;
}
bool is_lodgers_thread(int tid);
bool is_lodgers_address(uint64_t address);
bool send_lodger(int connection, const Command &command);
void tell_lodger_to_go_on();
void tell_lodger_of_restart();

// What came with a request for pages; a descriptor that did not is −1.
struct Channel {
    int commands, pipe, device;
    bool is_limited = false; // the program itself waits for whoever reads the pages
};

// pages.cpp
long serve_pages(const Channel &channel);
long serve_own_pages(const Channel &channel); // from the program itself
long fork_copy(const Channel &channel);

// stage.cpp: pages that change are copied while nothing else runs. −errno; `copied`: bytes.
long stage_pages(int connection, const Command &command, int file, uint64_t &copied);

} // namespace cryo::agent
