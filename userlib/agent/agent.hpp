// SPDX-License-Identifier: Apache-2.0
//
// The agent is the part of Cryo inside a program that runs under cr_run. Between checkpoints it is
// one listening socket and one signal handler: no thread, no costly wrapper around a hot call.
//
// RULE for every file of this folder but init.cpp, callback_thread.cpp and interposed_*.cpp: code
// that runs between "stop" and "go" is async-signal-safe. No malloc, no stdio, no libc call, no
// thread-local storage (but for one word in clients.cpp), no large frame: only sys::call and memory
// that the agent owns. The test unit.agent_symbols checks which symbols the objects need.
#pragma once

#include "agent/interface.hpp"
#include "agent/lodger.hpp"
#include "protocol/agent.hpp"
#include "protocol/requests.hpp"

#include <atomic>
#include <csignal>
#include <cstddef>

namespace cryo::agent {

constexpr size_t max_threads = 4096;
constexpr int library_signal = 33; // SIGSETXID, glibc's own
// A thread that has not reacted to the checkpoint signal by then never will.
constexpr int64_t arrival_limit_ns = 5'000'000'000;
// From then on it is looked at whether it can (hearing.hpp).
constexpr int64_t usual_arrival_ns = 100'000'000;

struct Slot {
    ThreadFacts facts = {};
    int former_tid = 0; // the thread's id when all had parked; a restored copy changes facts.tid
    std::atomic<uint32_t> arrived;
    bool knocked = false; // see library_threads.cpp
    // 0: not yet; 1: the thread has nothing left to do but return from the handler; 2: the same,
    // and it returns into a system call that it enters again
    std::atomic<uint32_t> back;
};

struct State {
    int listener = 0; // the control socket, close-on-exec
    int door = 0;     // the file that the listener is bound to (door.cpp)
    uint64_t listener_inode = 0;
    uint64_t door_inode = 0;
    int signal = 0;                  // the checkpoint signal
    bool on_alternate_stack = false; // the handler runs on the thread's alternate stack, if any
    int pid = 0;
    uint64_t loader = 0;            // load address of the dynamic loader; 0: there is none
    std::atomic<uint32_t> restarts; // how often this process has been restored
    std::atomic<uint32_t> active;
    std::atomic<uint32_t> arrivals;   // futex: a thread has parked
    std::atomic<uint32_t> generation; // futex: parked threads wait for it to change
    std::atomic<uint32_t> gone;       // futex: threads that have left the park for good
    size_t threads = 0;               // slots in use
    bool knocked = false;             // see library_threads.cpp
    std::atomic<uint32_t> deaf;       // threads that must not be stopped where they are (deaf.hpp)
    std::atomic<uint32_t> knocking;   // the leader is about to send glibc's signal
    SignalAction library_action = {}; // glibc's own action, replaced meanwhile
    Slot slots[max_threads + 1];      // the last one is the leader's
    ResumeInfo resume = {};
};

extern State state;

extern "C" {
int cryo_context_save(Context *context) __attribute__((returns_twice));
void cryo_signal_return();
long cryo_syscall(long number, long a, long b, long c, long d, long e, long f);
extern const char cryo_syscall_end[]; // the address after its `syscall`
long cryo_clone(unsigned long flags, void *stack_top, void (*fn)(void *), void *arg);
}

// door.cpp: the control socket.
void remember_runtime_directory(const char *directory); // the user's; may be null
long open_control();
void forget_control(); // in a child that inherited it
void tell_signal_at_door();
// How many filters of system calls (seccomp) the surroundings have put on the program, which end no
// process for a call of the agent's; every new door tells that. 0: none, or they are unknown.
void know_filters(int count);
int known_filters();
// Whether a call that the program may never make could end it: there is a filter that is unknown.
bool may_end_by_a_look();
// Whether none could do so for the calls that ask for settings (ThreadFacts::tsc).
bool may_ask_for_settings();
// Called before the kernel starts to pass the program's system calls to the program: from then on,
// no checkpointer may connect. False: this was done already, or there is no door. The second
// function undoes it when the program's call fails.
bool begin_passing_calls();
void withdraw_passing_calls();
// A thread of this process is under rules of its own for good (landlock_restrict_self), which the
// kernel shows nowhere: every new door tells that, and so do those of programs that it executes.
constexpr const char *confined_variable = "CRYO_CONFINED=1";
void know_confined();
bool is_confined();

// control.cpp: the signal handler.
void on_signal(int signal, siginfo_t *info, void *frame);
// Sends the checkpoint signal to a thread, marked so that the handler knows Cryo sent it.
long call_thread(int tid);
// Runs the program's own handler for the signal, if there is one and the signal was not Cryo's.
// Null: the program's handlers are not tracked.
extern bool (*run_handler_of_program)(siginfo_t *info, void *frame);
// Calls the kernel's rt_sigaction; all signals are blocked while the handler runs.
long set_handler(int signal, void (*handler)(int, siginfo_t *, void *), SignalAction *old);
// Moves the checkpoint handler onto the thread's alternate stack, or off it.
void move_handler(bool to_alternate_stack);
// Stops the program and lets it continue; round.outcome holds the result.
void lead(int self, void *frame);

// stop.cpp: brings every other thread into the handler. 0, or −errno with *blamed = the thread that
// did not arrive.
long stop_threads(int self, int *blamed);
void release_threads();
bool park(int tid, void *frame, uint32_t generation);
void pass_over(int tid); // for the calling thread: it is the lodger's, and is not stopped
void fill_facts(ThreadFacts &facts, int tid, void *frame);
void get_policy(Policy &policy, uint64_t address, unsigned flags); // get_mempolicy's MPOL_F_…

// going.cpp: waits until the threads run again.
void tell_gone(bool enters_call);
void await_gone();
// Reads /proc/self/task/TID/NAME and terminates it with NUL. Only for a checkpoint's leader.
long read_task(int tid, const char *name, char *to, size_t size);

// library_threads.cpp: threads of the C library that block every signal a program may use.
bool knock_at_library_thread(int tid); // false: not such a thread
void stop_knocking();

// interrupted_call.cpp: resumes a system call that the checkpoint interrupted, where possible.
bool resume_call(void *frame);    // true: a system call is entered next
void keep_time_left(void *frame); // call this first, as time passes

// restarted.cpp: in the restored process, the checkpoint's leader puts things in order. When the
// other threads are running, it notifies cr_restart.
void after_restart();
void tell_released(); // the other threads run from here on
void tell_alive();
void tell_end(int failure); // reports how the callbacks ended

// loader_locks.cpp: for threads that have new ids. Run by the leader while the others are parked.
void renumber_loader_locks();

// line.cpp: the connection to the checkpointer. Once the checkpointer has neither sent nor taken
// anything for the silence limit, all of these fail at once (−ETIME) until the next connection.
struct Line {
    uint32_t limit_ms = 0;
    bool is_silent = false;
};
extern Line line;
void begin_line(int connection); // none: −1
void limit_line(int connection, uint32_t ms);
void limit_silence(int fd, uint32_t ms); // fd is a socket
long send_packet(int to, const void *data, size_t size);
long send_message(int to, const void *message); // a msghdr
long receive_packet(int from, void *to, size_t size, int flags = 0);
long receive_message(int from, void *message, int flags);
long await_room(int pipe); // > 0: there is room
// Tells a checkpointer that may come back that there will be no image.
void say_called_off(int connection);

// serve.cpp: answers a checkpointer until Resume or until it is gone; round.result has the outcome.
void serve(int connection);

// descriptors.cpp: sends the program's descriptors, and the data queued in its terminals.
bool send_descriptors(int connection, const DescriptorsRequest &request);
bool send_terminal(int connection, const TerminalRequest &request);

// watches.cpp: the paths that inotify watches.
void remember_watch(const char *path, uint32_t mask);
bool send_watches(int connection);
void forget_watch_lock(); // in a child, which may have inherited it locked

// ipc.cpp: which System V objects the process uses.
void remember_ipc(IpcKind kind, int id, bool undo);
bool send_ipc(int connection);
bool send_queue(int connection, const QueueRequest &request);     // queues.cpp
void send_touched(int connection, const TouchedRequest &request); // touched.cpp
void send_undo(int connection, const UndoRequest &request);       // undo.cpp
void send_aio(int connection, const AioRequest &request);         // aio.cpp

// tracker.cpp: tracks changes of memory from one checkpoint to the next.
bool send_tracker(int connection, const TrackerRequest &request);
long set_watched(const WatchedRequest &request);
void forget_tracker(bool close_it); // in a child, or after a restart: it is another process's
void count_read();                  // counts one read(2) of the agent's own
// Lives around one process_vm_writev(2), in which the kernel may write past the page tables.
class MemoryWrite
{
  public:
    MemoryWrite();
    ~MemoryWrite();
    MemoryWrite(const MemoryWrite &) = delete;
    MemoryWrite &operator=(const MemoryWrite &) = delete;
};

// own.cpp: descriptors and libraries of the process that belong to Cryo.
void fill_own_facts(OwnFacts &facts, int connection);
void own_library(const void *inside);
int own_fd(int fd, OwnFdKind kind);
void disown_fd(int fd);
void renew_handles(); // after a restart

// arrivals.cpp: a descriptor on which another part of Cryo waits for input.
int watch_fd(int fd, void (*arrived)(void *), void *argument);
bool tell_arrival(int fd); // false: the descriptor is not watched
void renew_watched();      // the checkpoint signal has changed
void look_at_watched();    // ... and input may have been announced by the one before
void forget_watched();

// lodging.cpp: the parts of the process that are not the program's (lodger.hpp).
void set_lodger(const Lodger *whose);
extern std::atomic<const Lodger *> lodger;
inline bool has_lodger()
{
    return lodger.load(std::memory_order_acquire) != nullptr;
}
bool is_lodgers_thread(int tid);
bool is_lodgers_address(uint64_t address);
bool send_lodger(int connection);
void tell_lodger_to_go_on();
void tell_lodger_of_fork();
void tell_lodger_of_restart();

// The descriptors that came with a request for pages; −1: missing.
struct Channel {
    int commands, pipe, device;
    bool is_limited = false; // the program itself waits for the reader of the pages
};

// pages.cpp
long serve_pages(const Channel &channel);
long serve_own_pages(const Channel &channel); // from the stopped program itself
long fork_copy(const Channel &channel);

// stage.cpp: copies changed pages while the program is stopped. −errno; `copied`: bytes.
long stage_pages(int connection, const StageRequest &request, int file, uint64_t &copied);

} // namespace cryo::agent
