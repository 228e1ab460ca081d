// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints requested by the program, and which of them this rank has been through.
// global_ckpt() is ask(). MPI_Ckpt() is
//
//     uint64_t version = rank.versions().begin();
//     while (rank.versions().state(version) == Version::open)
//         stand_still(), wait_for_the_link();
//
// All ranks are inside this call when a version is saved, unless a message or a collective
// straddles it: then a rank returns early (straddled) and is saved wherever it is by then.
#pragma once

#include "bookmark/collectives.hpp"
#include "bookmark/needs.hpp"

namespace cryo::bookmark {

enum class Version : uint8_t { open, saved, straddled, failed };

class Versions
{
  public:
    // `comm`: a communicator of all ranks without messages; its collective is MPI_Ckpt. `phase`:
    // the rank's.
    Versions(Comm &comm, const Phase &phase, Collectives &collectives, const Needs &needs,
             Reports &reports)
        : comm_(comm), phase_(phase), collectives_(collectives), needs_(needs), reports_(reports)
    {}
    Versions(const Versions &) = delete;
    Versions &operator=(const Versions &) = delete;

    void ask();
    uint64_t begin();
    Version state(uint64_t number) const;
    uint64_t last() const { return comm_.clock; } // begun so far

    uint64_t cuts() const { return cuts_; }         // cuts this rank has been through
    uint32_t restarts() const { return restarts_; } // lets the program ask whether it was restarted

    void note_end(bool saved); // of a checkpoint
    void note_restart();

  private:
    Comm &comm_;
    const Phase &phase_;
    Collectives &collectives_;
    const Needs &needs_;
    Reports &reports_;
    uint64_t saved_ = 0, failed_ = 0; // the last ones
    uint64_t cuts_ = 0;
    uint32_t restarts_ = 0;
};

} // namespace cryo::bookmark
