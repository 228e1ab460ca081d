// SPDX-License-Identifier: Apache-2.0
//
// One checkpoint's connection to the agent inside a program. While the program is stopped, losing
// this object (or the whole process that holds it) lets the program go on.
//
//     Result<AgentSession> session = AgentSession::connect(412);
//     if (Result<uint64_t> threads = session->stop(); !threads)
//         return threads.error();
//     ... read /proc, ask for facts ...
//     Result<PageSource> pages = session->fork();   // a frozen copy serves them
//     session->ask_to_resume(0);
#pragma once

#include "agent/protocol.hpp"
#include "base/fd.hpp"
#include "base/result.hpp"
#include "capture/patience.hpp"
#include "capture/proc.hpp"
#include "capture/runs.hpp"

#include <array>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

using Actions = std::array<agent::SignalAction, agent::max_signals>;

// Pages of a frozen program, by address. Ends the copy when destroyed.
class PageSource
{
  public:
    PageSource(Fd commands, Fd pipe, pid_t pid);
    // Told of the bytes that were read, where anything is to be told.
    void tell(std::function<void(uint64_t)> moved) { moved_ = std::move(moved); }
    // When reading is given up, as AgentSession::set_deadline() and set_silence().
    void set_deadline(uint64_t ns) { deadline_ = ns; }
    void set_silence(uint64_t ns)
    {
        silence_ns_ = ns;
        patience_ = Patience(ns);
    }

    pid_t pid() const { return pid_; } // whose /proc/PID/pagemap tells what there is
    // Reads the bytes at `address` into `to`; where asked, pages behind the end of a mapped file
    // are zeros and no error.
    // `protection`: of the mapping, so that memory the program may not read can be read; −1: not
    // known.
    Result<void> read(uint64_t address, std::span<char> to, bool zeros_behind_file,
                      int protection = -1);
    // Asks for what will be read, in this order, so that it is on its way by then; at most so many
    // at a time. How many of them were asked for; the others cannot be before some have been read.
    static constexpr size_t most_asked = 64;
    Result<size_t> ask(std::span<const Run> runs, bool zeros_behind_file, int protection = -1);
    // What is asked for here goes into a file at once, one part behind the other from an offset on:
    // by reference, where the server sends it so and the file takes it, so that it is copied once.
    struct Part {
        Run run;
        bool zeros_behind_file;
        int protection;
        bool is_alike(const Part &other) const
        {
            return zeros_behind_file == other.zeros_behind_file && protection == other.protection;
        }
    };
    struct Target {
        int file;
        std::string name; // for messages
        uint64_t offset;
    };
    Result<void> put(std::span<const Part> parts, Target to);
    // By the module, where the server has it: its pages with contents whose soft-dirty bit is
    // clear. Nothing may be asked for meanwhile. EOPNOTSUPP: it has not.
    void set_scans(bool scans) { scans_ = scans; }
    bool can_scan() const { return scans_; }
    Result<std::vector<Run>> unwritten(uint64_t start, uint64_t end);
    // Tells the server that it is no longer needed.
    Result<void> finish();

  private:
    Result<size_t> ask_alike(std::span<const Part> parts);
    Result<uint64_t> move(const Target &to, uint64_t most);
    Error ended(uint64_t bytes, uint64_t address) const;
    Result<void> await_pages(uint64_t address);

    Fd commands_, pipe_;
    std::deque<Run> asked_;
    pid_t pid_;
    bool blocks_; // the pipe, where it could not be kept from that
    bool scans_ = false;
    uint64_t deadline_ = 0;
    uint64_t silence_ns_ = default_silence_ns;
    Patience patience_{default_silence_ns};
    std::function<void(uint64_t)> moved_;
};

// ETIME, if the deadline of the monotonic clock (0: none) is over.
Result<void> check_deadline(uint64_t deadline_ns);

// The program went on by itself, for we were silent for so long.
Error called_off_after(pid_t pid, uint64_t silent_ms);

// What the agent watches memory with (capture/tracker.hpp).
struct TrackerLink {
    Fd fd; // a userfaultfd of the program; none where nothing is watched
    agent::TrackerKind kind = agent::TrackerKind::none;
    std::array<uint8_t, 16> token{};
    uint64_t marks = 0; // as in agent::TrackerFacts
    uint32_t notes = 0;
    uint64_t mark = 0, changes = 0;
};

class AgentSession
{
  public:
    // Where to connect, and that this may be done: what takes long enough to be found out for all
    // before the first of them is disturbed.
    struct Door {
        pid_t pid;
        Fd socket;
        std::string address;
    };
    static Result<Door> door_of(pid_t pid);
    // The program is interrupted from now on.
    static Result<AgentSession> enter(Door door);
    // A connection that another checkpoint has made.
    static AgentSession adopt(Fd connection, pid_t pid)
    {
        AgentSession made(std::move(connection), pid);
        made.heard_ = true;                      // by that one
        made.version_ = agent::protocol_version; // most probably, until it says so itself
        return made;
    }
    // The checkpoint signal of a process.
    static int signal_of(const Proc &proc);
    // Why its agent does not answer, as far as /proc tells.
    static Error silent(const Proc &proc);
    // What a process is called where checkpoints take turns (turn.hpp).
    static Result<std::string> address_of(const Proc &proc);

    // Nothing is waited for after that moment of the monotonic clock; 0: without end.
    void set_deadline(uint64_t ns) { deadline_ = ns; }
    // For how long one answer is waited for, but for that of callbacks.
    void set_silence(uint64_t ns)
    {
        silence_ns_ = ns;
        limit_sends(connection_.get(), ns);
    }
    // The agent lets the program go on when it hears nothing for as long as the request allows.
    // This tells it that we are at work.
    void say_alive();
    // That the program stands still and has done so all the time, and will for that long again.
    // Older agents do not tell.
    Result<void> check_standing();

    // Runs the program's callbacks, which may take any time; what comes of it arrives at fd().
    Result<void> ask_to_prepare(const agent::RequestInfo &request);
    struct Prepared {
        agent::Op op; // accepted; forward; or prepare: the callbacks are where the image is taken
        bool callbacks = false; // of prepare: there are any
        bool omits = false;     // of prepare: it leaves itself out
        int scope = 0;          // of forward: a CR_SCOPE_*
        pid_t target = 0;
    };
    // The next packet, which has arrived. Once it is that of `prepare`, or an error, no other does.
    Result<Prepared> prepared();
    int fd() const { return connection_.get(); }
    pid_t pid() const { return pid_; }
    // That nobody has stopped the process, which could answer nothing then.
    Result<void> check_running() const;
    Result<void> ask_to_stop();                  // then:
    bool has_answer(int milliseconds = 1) const; // soon, or now
    Result<uint64_t> stop();                     // how many threads stand still
    // Asks for several things before the first answer is waited for. Then come the calls that fetch
    // them, in this order and no others in between.
    Result<void> ask_ahead(std::initializer_list<agent::Op> ops);
    Result<std::vector<agent::ThreadFacts>> threads(); // the leader of the checkpoint first
    Result<agent::ProcessFacts> process();
    Result<Actions> actions();
    Result<agent::TimerFacts> timer(int id); // a POSIX timer
    // Pages from a copy, which the program makes while others are asked: resume() may follow when
    // it is there. From the stopped program: then finish(), served(). With a descriptor of
    // /dev/cryo it is the kernel module that moves them.
    Result<void> ask_to_fork(int device = -1);
    Result<PageSource> forked();
    Result<PageSource> serve(int device = -1);
    Result<void> served();
    // The program's own descriptors, shared with us: to be closed before resume(), or the program
    // would miss the end of what it closes.
    Result<std::vector<Fd>> descriptors(const std::vector<int> &numbers); // ascending
    // What waits to be read at both ends of a pseudo-terminal whose master is given.
    struct TerminalContents {
        std::string to_slave, to_master;
    };
    Result<TerminalContents> terminal(int master);
    // What is in a POSIX message queue and stays there, as in image/messages.hpp.
    Result<std::string> queue(int descriptor);
    // Paths that the program gave to inotify_add_watch, and what they led to then.
    struct Watched {
        uint64_t inode = 0, device = 0;
        std::string path;
    };
    Result<std::vector<Watched>> watched();
    // NUMA policies of the memory at these addresses; none where the agent is too old to tell.
    Result<std::vector<agent::Policy>> policies(const std::vector<uint64_t> &addresses);
    // System V objects that its functions have named; none where the agent is too old to tell.
    Result<std::vector<agent::IpcUse>> ipc();
    // What its end would do to a set of semaphores. EOPNOTSUPP: the agent cannot tell.
    Result<std::vector<int16_t>> undo(int id, uint64_t semaphores);
    Result<agent::OwnFacts> own();
    // Of that kind, if any, one is made where there is none; an error where there can be none.
    Result<TrackerLink> tracker(agent::TrackerKind wanted);
    Result<void> set_watched(const std::array<uint8_t, 16> &token, uint32_t notes = 0);
    Result<void> stop_watching(uint32_t notes = 0);
    // Copies this memory into a file, from `offset` on, one run after the other; all or an error.
    Result<void> stage(int file, uint64_t offset, const std::vector<Run> &runs);
    // Which of these pages are in memory (mincore); EOPNOTSUPP where the agent is too old to tell.
    Result<std::vector<Run>> touched(uint64_t start, uint64_t end);
    // What in the process is not the program's; nothing where nothing is.
    Result<std::unique_ptr<agent::LodgerFacts>> lodger();
    // The program goes on. `why`: the errno for which there will be no image, or 0. `signal`: which
    // it sends itself before anything of it runs; 0: none.
    Result<void> ask_to_resume(int why, int signal = 0);
    bool sends_itself_signals() const;
    // An error also where the program had gone on before, because we were silent.
    Result<void> await_resumed();
    // The same without waiting for an answer: the process is stopped.
    void let_go();
    // The callbacks have ended; an error if one of them forbids the image. A program that has ended
    // meanwhile does not.
    Result<void> callbacks_done();

  private:
    AgentSession(Fd connection, pid_t pid) : connection_(std::move(connection)), pid_(pid)
    {
        set_silence(silence_ns_);
    }
    Result<void> send(agent::Op op, std::span<const int> fds = {}, uint64_t argument = 0);
    Result<void> send(const agent::Command &command, std::span<const int> fds = {});
    Result<void> send_rest(std::span<const char> bytes);
    Result<void> await_answer(int milliseconds);
    Result<void> await_packet();
    void expect(uint64_t limit_ns); // an answer, and all that belongs to it
    Error overdue() const;
    Error not_sent(int err) const;
    std::optional<Error> called_off() const;
    bool is_stopped() const;
    Result<agent::Reply> reply(agent::Op op);
    Result<void> watch(const agent::Command &command);
    Result<agent::Reply> ask(agent::Op op, uint64_t argument = 0);
    // Of an older agent it may be shorter, but not than `least`; the rest is zero.
    Result<void> packet(void *to, size_t size, size_t least = 0);
    Error lost(int err) const;
    Error other_protocol();

    Fd connection_;
    pid_t pid_;
    uint64_t deadline_ = 0;
    uint64_t silence_ns_ = default_silence_ns;
    uint64_t answer_until_ = 0;             // on the monotonic clock
    bool heard_ = false;                    // the agent has said anything
    bool is_understood_ = true;             // what it says
    agent::Op asked_ = agent::Op::accepted; // what it was asked last
    uint16_t version_ = 0;                  // of the protocol that the agent speaks
    std::deque<agent::Op> asked_ahead_;
    Fd copy_commands_, copy_pages_; // our ends of what a copy that is being made will serve
    bool copy_has_device_ = false;
};

} // namespace cryo::capture
