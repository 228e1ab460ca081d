// SPDX-License-Identifier: Apache-2.0
//
// Tests in vain, over and over: a program that computes between them, or that waits by testing,
// asks some ten million times a second. Crossing into the library each time would cost more than
// what is computed between. So a test that was in vain a moment ago, with no other MPI call since,
// is in vain again without asking; which MPI allows, as it says nothing of when it is seen that
// something has come. The moment is a sixteenth of the time that such testing has taken already,
// and a microsecond or two at most, so that nothing takes long that would not have taken long
// anyway. Whoever tests less often than that, or in short bursts, always asks: a message that comes
// in pieces needs the library's attention for each.
//
//     if (in_vain_again(...))       // before Inside: nothing is touched but this
//         return MPI_SUCCESS;
//     ...                           // asks
//     if (in vain)
//         fruitless.were(count, requests);
#pragma once

#include "mpi/rank/inside.hpp"
#include "mpi/wrap/stock.hpp"

#include <algorithm>
#include <x86intrin.h>

namespace cryo::mpi::rank {

class Fruitless
{
  public:
    bool are_so_again(int count, const MPI_Request *requests)
    {
        if (!are_these(count, requests) || attention)
            return false;
        if (unseen_ > 0) {
            unseen_--;
            return true;
        }
        if (__rdtsc() - asked_ >= patience_)
            return false;
        // To look at the clock takes half as long as the library's test itself.
        unseen_ = static_cast<int>(patience_ / 512);
        return true;
    }

    // These, which this call has asked for.
    void were(int count, const MPI_Request *requests)
    {
        if (many || count < 1 || count > few)
            return;
        const unsigned long long now = __rdtsc();
        call_++; // this one's number, if no other call was between
        if (!are_these(count, requests) || now - asked_ > 2 * longest) {
            since_ = now;
            count_ = count;
            std::copy_n(requests, count, requests_);
        }
        call_ = calls;
        asked_ = now;
        patience_ = std::min((now - since_) / 16, longest);
        unseen_ = 0;
    }

  private:
    bool are_these(int count, const MPI_Request *requests) const
    {
        return calls == call_ && count == count_ &&
               std::equal(requests, requests + count, requests_);
    }

    static constexpr int few = 8;
    static constexpr unsigned long long longest = 4096; // of the processor's clock
    int count_ = 0;
    int unseen_ = 0;         // tests that need not look at the clock
    unsigned long call_ = 0; // that asked last, of `calls`
    unsigned long long since_ = 0, asked_ = 0, patience_ = 0;
    MPI_Request requests_[few] = {};
};

// Nothing is kept of them where several threads are in MPI.
extern Fruitless fruitless __attribute__((visibility("hidden")));

// Of MPI_Test, MPI_Testall and MPI_Testany. If so, what these have to say is said.
inline bool in_vain_again(MPI_Request *request, int *flag, MPI_Status *)
{
    if (!fruitless.are_so_again(1, request))
        return false;
    *flag = 0;
    return true;
}
inline bool in_vain_again(int count, MPI_Request *requests, int *flag, MPI_Status *)
{
    if (!fruitless.are_so_again(count, requests))
        return false;
    *flag = 0;
    return true;
}
inline bool in_vain_again(int count, MPI_Request *requests, int *index, int *flag,
                          MPI_Status *status)
{
    if (!in_vain_again(count, requests, flag, status))
        return false;
    *index = MPI_UNDEFINED;
    return true;
}

} // namespace cryo::mpi::rank
