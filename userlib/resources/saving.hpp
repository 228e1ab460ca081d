// SPDX-License-Identifier: Apache-2.0
//
// The services of a checkpoint that a kind of open file uses to save one. The program's processes
// are stopped all the time; `Seen::shared` is its open file itself.
//
//     Result<void> save(Saving &saving, const Seen &seen)
//     {
//         image::Eventfd record;
//         record.open_file = seen.open_file;
//         ...
//         saving.records().add(record);
//         return {};
//     }
#pragma once

#include "base/result.hpp"
#include "image/record_store.hpp"
#include "look/problems.hpp"
#include "look/proc.hpp"
#include "resources/seen.hpp"

#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace cryo::resources {

// A path that the program has passed to inotify_add_watch, and what it led to then.
struct WatchedPath {
    uint64_t inode = 0, device = 0;
    std::string path;
};

// The data queued for reading at both ends of a pseudo-terminal.
struct TerminalContents {
    std::string to_slave, to_master;
};

// The user's choice for pipes to processes outside for which cr_restart has no descriptor.
struct PipeChoice {
    bool refuse = false;      // otherwise they come back as closed at the other end,
    bool close_fifos = false; // FIFOs only if this is set, or if they are inherited
};

class Saving
{
  public:
    virtual ~Saving() = default;

    // Where the kind's records go.
    virtual image::FoundRecords &records() = 0;
    // Keeps a text that a record refers to.
    virtual std::string_view keep(std::string text) = 0;
    virtual image::List<uint32_t> keep_list(const std::vector<uint32_t> &list) = 0;
    virtual image::List<uint64_t> keep_list(const std::vector<uint64_t> &list) = 0;
    // Keeps small contents as an object of the image: its id, 0 if they are empty.
    virtual uint32_t copied(image::ObjectKind kind, std::string bytes) = 0;
    // The open file cannot be saved: "descriptor 5: WHAT (WAY_OUT)".
    virtual void refuse(const Seen &seen, std::string_view what, std::string_view way_out,
                        capture::Passing passing = capture::Passing::when_gone) = 0;
    virtual void notice(std::string text) = 0; // about the image, for the user

    virtual const std::vector<Seen> &seen() const = 0; // of all processes
    // The open file at this number in the process that holds `beside`; null: there is none.
    virtual const Seen *at(const Seen &beside, int fd) const = 0;
    // Open files that one of the processes has as descriptor 0, 1 or 2.
    virtual std::set<const Seen *> standard() const = 0;
    virtual const image::File &file(const Seen &seen) const = 0;
    virtual pid_t process(const Seen &seen) const = 0; // that has it
    // Likewise; of what only travels in a message, the process that has the socket.
    virtual const capture::Proc &holder(const Seen &seen) const = 0;
    // An open file that waits in this socket, in a message: its index in seen(), which may grow.
    virtual Result<size_t> add(Fd fd, const Seen &socket) = 0;
    // A connection or FIFO that every process that has it inherited from the process that started
    // its cr_run.
    virtual bool is_inherited(const Seen &seen) const = 0;
    // The processes that are saved; with those that have ended, and are not waited for.
    virtual std::set<pid_t> members(bool with_zombies) const = 0;
    // fdinfo, read anew.
    virtual Result<std::string> info_now(const Seen &seen) const = 0;
    // A further remedy: saving the whole session, if a process of it has the other end, `link`.
    virtual std::string offer(const Seen &seen, const std::string &link) = 0;
    virtual PipeChoice pipe_choice() const = 0;

    // Answers of the process's agent: the paths that it watches, the messages of a POSIX queue,
    // what waits in a pseudo-terminal.
    virtual Result<std::vector<WatchedPath>> watched(const Seen &seen) = 0;
    virtual Result<std::string> messages(const Seen &queue) = 0;
    virtual Result<TerminalContents> terminal(const Seen &master) = 0;
};

} // namespace cryo::resources
