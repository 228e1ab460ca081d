// SPDX-License-Identifier: Apache-2.0
//
// Repeated unsuccessful tests and probes: a program that computes between them, or that waits by
// testing, may test ten million times a second, and crossing into the library each time would cost
// more than the computation between. So a test that failed a moment ago, with no other MPI call
// since, fails again without asking the library; MPI allows this, as it does not say when arrivals
// become visible. That moment is a sixteenth of the time spent on such testing so far, and at most
// a microsecond or two, so that no wait becomes noticeably longer. A program that tests less often,
// or in short bursts, always reaches the library: a message that arrives in pieces needs the
// library's attention for each piece.
//
//     if (in_vain_again(...))       // before Inside: nothing is touched but this
//         return MPI_SUCCESS;
//     ...                           // asks
//     if (unsuccessful)
//         fruitless_tests.were(count, requests);
#pragma once

#include "mpi/rank/inside.hpp"
#include "mpi/stock/stock.hpp"

#include <algorithm>
#include <x86intrin.h>

namespace cryo::mpi::rank {

// Tests of one set of requests, or probes with one set of arguments, given as an array of words.
template <class Word>
class Fruitless
{
  public:
    bool are_so_again(int count, const Word *words)
    {
        if (!are_these(count, words) || must_attend)
            return false;
        if (unseen_ > 0) {
            unseen_--;
            return true;
        }
        if (patience_ == 0 || __rdtsc() - asked_ >= patience_)
            return false;
        // Reading the clock takes half as long as the library's test itself.
        unseen_ = static_cast<int>(patience_ / 512);
        return true;
    }

    // Records that this call has asked the library about these without success.
    void were(int count, const Word *words)
    {
        if (several_threads || count < 1 || count > few)
            return;
        call_++; // this call's number, if no other call came between
        if (!are_these(count, words)) {
            times_ = 0;
            count_ = count;
            std::copy_n(words, count, words_);
        }
        call_ = mpi_calls;
        patience_ = 0;
        unseen_ = 0;
        if (times_ < short_wait) { // reading the clock would only lengthen it
            times_++;
            return;
        }
        const unsigned long long now = __rdtsc();
        if (times_ == short_wait || now - asked_ > 2 * longest)
            since_ = now;
        times_ = short_wait + 1;
        asked_ = now;
        patience_ = std::min((now - since_) / 16, longest);
    }

  private:
    bool are_these(int count, const Word *words) const
    {
        return mpi_calls == call_ && count == count_ && std::equal(words, words + count, words_);
    }

    static constexpr int few = 8;
    static constexpr int short_wait = 16;               // in tests
    static constexpr unsigned long long longest = 4096; // in ticks of the TSC
    int count_ = 0;
    int times_ = 0;
    int unseen_ = 0;         // tests that need not look at the clock
    unsigned long call_ = 0; // number (in `mpi_calls`) of the call that asked last
    unsigned long long since_ = 0, asked_ = 0, patience_ = 0;
    Word words_[few] = {};
};

// Not filled where several threads may be in MPI.
extern Fruitless<MPI_Request> fruitless_tests __attribute__((visibility("hidden")));
extern Fruitless<long> fruitless_probes __attribute__((visibility("hidden")));

// For MPI_Test, MPI_Testall, MPI_Testany and MPI_Iprobe. If true, their results are set.
inline bool in_vain_again(MPI_Request *request, int *flag, MPI_Status *)
{
    if (!fruitless_tests.are_so_again(1, request))
        return false;
    *flag = 0;
    return true;
}
inline bool in_vain_again(int count, MPI_Request *requests, int *flag, MPI_Status *)
{
    if (!fruitless_tests.are_so_again(count, requests))
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

// The arguments of MPI_Iprobe.
struct Probed {
    Probed(int source, int tag, MPI_Comm comm)
        : words{source, tag, reinterpret_cast<long>(static_cast<void *>(comm))}
    {}
    static constexpr int count = 3;
    long words[count];
};
inline bool in_vain_again(int source, int tag, MPI_Comm comm, int *flag, MPI_Status *)
{
    const Probed what(source, tag, comm);
    if (!fruitless_probes.are_so_again(Probed::count, what.words))
        return false;
    *flag = 0;
    return true;
}

} // namespace cryo::mpi::rank
