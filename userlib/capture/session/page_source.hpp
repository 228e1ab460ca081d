// SPDX-License-Identifier: Apache-2.0
//
// Reads pages of a frozen program. A copy of the program serves them, or the program itself.
//
//     Result<PageSource> pages = session->memory().forked();
//     pages->set_deadline(deadline_ns);
//     if (Result<void> done = pages->read(address, bytes, false); !done)
//         return done;
//     Result<void> over = pages->finish();
#pragma once

#include "base/fd.hpp"
#include "base/remote_address.hpp"
#include "base/result.hpp"
#include "capture/session/patience.hpp"
#include "look/runs.hpp"

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace cryo::capture {

// Reads pages of a frozen program, by address. Ends the copy when destroyed.
class PageSource
{
  public:
    PageSource(Fd commands, Fd pipe, pid_t pid);
    // `moved` is called with the number of bytes read.
    void tell(std::function<void(uint64_t)> moved) { moved_ = std::move(moved); }
    // Limits on reading, as in AgentSession::set_deadline() and set_silence().
    void set_deadline(uint64_t ns) { deadline_ = ns; }
    void set_silence(uint64_t ns)
    {
        silence_ns_ = ns;
        patience_ = Patience(ns);
    }

    pid_t pid() const { return pid_; } // its /proc/PID/pagemap shows which pages exist
    // Reads the bytes at `address` into `to`. With zeros_behind_file, pages behind the end of a
    // mapped file read as zeros instead of failing.
    // `protection`: of the mapping, so that memory the program may not read can be read; −1:
    // unknown.
    Result<void> read(RemoteAddress address, std::span<char> to, bool zeros_behind_file,
                      int protection = -1);
    // Requests pages in the order in which they will be read, so that they are on their way by
    // then; at most `most_asked` may be outstanding. Returns how many runs were requested now.
    static constexpr size_t most_asked = 64;
    Result<size_t> ask(std::span<const Run> runs, bool zeros_behind_file, int protection = -1);
    // put() requests parts and moves them into a file, one behind the other: by reference, if the
    // server sends and the file accepts pages so, which copies them only once.
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
    // Through the module, if the server has it: private pages whose soft-dirty bit is clear. No
    // other request may be outstanding. EOPNOTSUPP: there is no module.
    void set_scans(bool scans) { scans_ = scans; }
    // The server reads typed requests, and not only those of older releases.
    void set_typed(bool is_typed) { is_typed_ = is_typed; }
    // The server is the program itself, and not a copy of it.
    void set_program_serves() { program_serves_ = true; }
    bool can_scan() const { return scans_; }
    Result<std::vector<Run>> unwritten(RemoteAddress start, RemoteAddress end);
    // Tells the server that it is no longer needed.
    Result<void> finish();

  private:
    Result<size_t> ask_alike(std::span<const Part> parts);
    Result<uint64_t> move(const Target &to, uint64_t most);
    Error ended(uint64_t bytes, RemoteAddress address) const;
    Result<void> await_pages(RemoteAddress address);
    template <class R>
    Result<void> send(const R &request);

    Fd commands_, pipe_;
    std::deque<Run> asked_;
    pid_t pid_;
    bool blocks_; // the pipe could not be made non-blocking
    bool scans_ = false;
    bool is_typed_ = false;
    bool program_serves_ = false;
    uint64_t deadline_ = 0;
    uint64_t silence_ns_ = default_silence_ns;
    Patience patience_{default_silence_ns};
    std::function<void(uint64_t)> moved_;
};

} // namespace cryo::capture
