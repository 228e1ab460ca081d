// SPDX-License-Identifier: Apache-2.0
//
// Reading /proc/PID/smaps takes long where there is much memory, because the kernel looks at every
// page. So it is read before the program is stopped; the stop, and a check afterwards, look for
// what may have changed since.
//
//     EarlyLook early = EarlyLook::at(proc);                  // while it runs
//     Result<std::string> smaps = early.smaps(proc, status);  // while it is stopped
//     Result<bool> good = early.held(proc, copy);             // when it runs again
//
// Two things in smaps matter: the addresses, protections and files of mappings, which
// /proc/PID/maps tells as well, and quickly; and the flags left by madvise(2), mlock(2) and the
// like. A copy made by fork shows those flags with two exceptions. It lacks mappings that are not
// inherited, so its list differs then; and nothing in it is locked, but the kernel counts locked
// memory in the status. Registrations with userfaultfd are not inherited either; those made by
// others since the early look still exist when the program runs again. Our own (capture/tracker) do
// not count.
//
// Without a copy, everything is read again in the stop, unless the agent says that the program
// has not called madvise through the C library since the early look; only a preloaded agent
// knows. Then a second look after the program resumes is enough, for calls made to the kernel
// directly.
//
// If any such flag is present early, nothing is taken from before the stop.
#pragma once

#include "look/proc.hpp"
#include "look/runs.hpp"

#include <string>

namespace cryo::capture {

class EarlyLook
{
  public:
    // Empty: everything is read in the stop.
    EarlyLook() = default;
    // Of a running program; empty if the program is too small for this to pay off.
    static EarlyLook at(const Proc &proc);

    // The lasting part of /proc/PID/smaps of the stopped program. `status`: its own, read in the
    // stop.
    Result<std::string> smaps(const Proc &proc, std::string_view status);
    // Whether that was true, as far as it was still unknown: must be asked before the commit.
    // `copy`: made by fork in the stop.
    // `watched`: mappings now registered with a userfaultfd by ourselves; they do not count.
    Result<bool> held(const Proc &proc, const Proc &copy,
                      const std::vector<Run> &watched = {}) const;
    // As held(), for a stopped program of which no copy is made.
    Result<bool> held_in_stop(const Proc &proc, const std::vector<Run> &watched) const;
    // `since_advice`: nanoseconds since the program's last madvise, measured in the stop.
    void hear(uint64_t since_advice);
    bool can_wait() const { return used_ && unadvised_; }
    // As held(), after the program has resumed, if can_wait().
    Result<bool> held_afterwards(const Proc &proc, const std::vector<Run> &watched) const;
    bool was_used() const { return used_; }
    // The lasting part of /proc/PID/smaps from before the stop; empty if there was no early look.
    std::string_view seen() const { return early_; }
    uint64_t huge_pages() const { return huge_pages_; } // as in AddressSpace

  private:
    std::string early_;  // empty: no early look
    uint64_t begun_ = 0; // monotonic clock
    bool used_ = false;
    bool unadvised_ = false;
    uint64_t huge_pages_ = 0;
};

// The lines of smaps that say what a mapping is, without those about its momentary
// contents.
std::string lasting_part(std::string_view smaps);
// The lines that /proc/PID/maps has as well.
std::string maps_part(std::string_view smaps);
// True if no mapping present in both (as from lasting_part) differs in its flags.
bool agree(std::string_view before, std::string_view after);

} // namespace cryo::capture
