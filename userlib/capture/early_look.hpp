// SPDX-License-Identifier: Apache-2.0
//
// What /proc/PID/smaps says takes the longest to read where there is much memory: the kernel looks
// at every page. So it is read before the program is stopped, and what could have changed since is
// looked for in the stop and afterwards.
//
//     EarlyLook early = EarlyLook::at(proc);                  // it runs
//     Result<std::string> smaps = early.smaps(proc, status);  // it stands still
//     Result<bool> good = early.held(proc, copy);             // it runs again
//
// What there is of smaps is the addresses, protections and files of mappings, which /proc/PID/maps
// tells as well, and quickly; and the flags that madvise(2), mlock(2) and their like have left. Of
// those, a copy made by fork has all but two kinds. It lacks what is not to be inherited, and so
// has other mappings then; and it has nothing locked, but how much is locked the kernel counts.
// What is registered with userfaultfd is not so in the copy either; who was registered by others
// since the early look still is when the program runs again. What we have registered ourselves
// (capture/tracker) is none of this.
//
// Where there is no copy, all is read once more in the stop; unless the program's agent says that
// since the early look the program has called madvise by no function of the C library, which an
// agent that is preloaded knows. Then it is enough to look again when the program goes on, for what
// it may have said to the kernel itself.
//
// Where anything of this kind is there early, nothing is taken from before the stop.
#pragma once

#include "capture/proc.hpp"
#include "capture/runs.hpp"

#include <string>

namespace cryo::capture {

class EarlyLook
{
  public:
    // Nothing: all is read in the stop.
    EarlyLook() = default;
    // Of a program that runs; nothing if it is too small for that to pay.
    static EarlyLook at(const Proc &proc);

    // What lasts of /proc/PID/smaps of the program, which stands still. `status`: its own, read in
    // the stop.
    Result<std::string> smaps(const Proc &proc, std::string_view status);
    // Whether that was so, as far as was not known then: to be asked before anything is committed.
    // `copy`: made by fork in the stop.
    // Mappings that we watch ourselves by a userfaultfd now are known.
    Result<bool> held(const Proc &proc, const Proc &copy,
                      const std::vector<Run> &watched = {}) const;
    // The same of a program that stands still, and of which no copy will be made.
    Result<bool> held_in_stop(const Proc &proc, const std::vector<Run> &watched) const;
    // How long ago the program's last advice was, in the stop: nanoseconds.
    void hear(uint64_t since_advice);
    bool can_wait() const { return used_ && unadvised_; }
    // The same when it runs again, if it can wait.
    Result<bool> held_afterwards(const Proc &proc, const std::vector<Run> &watched) const;
    bool was_used() const { return used_; }
    // What lasts of /proc/PID/smaps, before the stop; empty if nothing was seen.
    std::string_view seen() const { return early_; }
    uint64_t huge_pages() const { return huge_pages_; } // as AddressSpace's

  private:
    std::string early_;  // empty: nothing was seen
    uint64_t begun_ = 0; // of the monotonic clock
    bool used_ = false;
    bool unadvised_ = false;
    uint64_t huge_pages_ = 0;
};

// The lines of smaps that say what a mapping is, without those that say what is in it at the
// moment.
std::string lasting_part(std::string_view smaps);
// The lines that /proc/PID/maps has too.
std::string maps_part(std::string_view smaps);
// No mapping that is in both (as lasting_part) has other flags.
bool agree(std::string_view before, std::string_view after);

} // namespace cryo::capture
