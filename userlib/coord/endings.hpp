// SPDX-License-Identifier: Apache-2.0
//
// How the ranks of a supervised job have ended, as its first daemon sees it: whether all have done
// their part, and if not, whether a fault came first. A rank tells before it ends by itself, or
// before its MPI library ends the job, and does not end before it is answered (rank_end.hpp); so
// what happens meanwhile is not its doing. One that goes without a word was killed, or its node was
// lost. No clock and no connection is in here.
//
//     Endings endings;
//     endings.comes(no_rank_is_there);  endings.all_have_come();
//     endings.gone(rank, well);                            // a rank
//     if (!endings.gives_up(rank))                         // it is to be answered later:
//         ...                                              // endings.let_go(), when nothing came
//     endings.launcher_ended();
//     if (endings.is_fault()) ...
#pragma once

#include <cstdint>
#include <set>

namespace cryo::coord {

class Endings
{
  public:
    // A rank has come. `first`: none is there; if all had come before, these are another mpirun's.
    void comes(bool first);
    void all_have_come() { all_came_ = true; }

    // A rank has gone. `well`: it has said that it would.
    void gone(uint32_t rank, bool well);
    // The rank is about to end the job. True: at once.
    bool ends(uint32_t rank);     // the program wants it
    bool gives_up(uint32_t rank); // its MPI library does it; why, is to be seen first
    // No fault was seen for long enough: what goes without a word from now on goes for that.
    void let_go() { decided_ = true; }
    // The launcher ends what is left.
    void launcher_ended() { decided_ = true; }
    // The job is to end, unfinished as it is: ompi-checkpoint --term.
    void are_wanted() { decided_ = wanted_ = true; }

    bool is_decided() const { return decided_ || faulted_; }
    // Some went without a word,
    bool are_unfinished() const { return unfinished_ && !wanted_; }
    bool is_fault() const { return faulted_; } // one of them before any had ended the job

  private:
    std::set<uint32_t> told_; // are about to end
    bool all_came_ = false;
    bool decided_ = false;
    bool wanted_ = false;
    bool faulted_ = false;
    bool unfinished_ = false;
};

} // namespace cryo::coord
