// SPDX-License-Identifier: Apache-2.0
//
// Asks the library about several requests at once.
//
//     Natives natives(count, requests);
//     if (natives.usable()) {
//         call(spin::wait_any, &natives.wait);
//         ...                                   // natives.wait holds the library's answer
//         natives.complete(i, j, natives.said(), status);
//     }
#pragma once

#include "mpi/rank/completion.hpp"
#include "mpi/rank/memory.hpp"
#include "mpi/rank/spin.hpp"

namespace cryo::mpi::rank {

inline bool is_active(MPI_Request request)
{
    const Request *r = request_of(request);
    return r != nullptr && r->active;
}

// The library's handles of an array of requests, and room for its answers. While this lives, the
// incomplete requests are lent.
class Natives
{
  public:
    Natives(int count, MPI_Request *requests, bool once = false)
        : count_(count > 0 && requests != nullptr ? static_cast<size_t>(count) : 0),
          requests_(requests)
    {
        if (must_attend || !lend_all())
            return;
        if (count_ > few) {
            bytes_ = count_ * (sizeof(MPI_Request) + sizeof(MPI_Status) + sizeof(int));
            statuses_ = static_cast<MPI_Status *>(memory().allocate(bytes_));
            real_ = reinterpret_cast<MPI_Request *>(statuses_ + count_);
            indices_ = reinterpret_cast<int *>(real_ + count_);
        }
        for (size_t i = 0; i < count_; i++)
            real_[i] = is_active(requests_[i]) ? mpi::real_of(requests_[i]) : real_null_request();
        wait = {.count = static_cast<int>(count_),
                .requests = real_,
                .statuses = statuses_,
                .indices = indices_,
                .index = MPI_UNDEFINED,
                .done = 0,
                .flag = 0,
                .error = MPI_SUCCESS,
                .once = once};
        usable_ = true;
    }
    ~Natives()
    {
        if (usable_)
            give_all_back();
        if (bytes_ != 0)
            memory().deallocate(statuses_, bytes_);
    }
    Natives(const Natives &) = delete;
    Natives &operator=(const Natives &) = delete;

    bool usable() const { return usable_; }

    // Request i is complete in the library, with status j: the program's handle is released.
    void complete(size_t i, size_t j, int error, MPI_Status *status)
    {
        Request *r = request_of(requests_[i]);
        if (r != nullptr && r->active) {
            object_of(requests_[i])->real = real_[i];
            completed_natively(*r, statuses_[j], error, error);
            release(&requests_[i]);
        }
        set_status(status, statuses_[j]);
    }
    bool is_pending(size_t i) const
    {
        const Request *r = request_of(requests_[i]);
        return r != nullptr && r->active && statuses_[i].MPI_ERROR == MPI_ERR_PENDING;
    }
    // The library's error for the call and, if that is an error, for request i.
    int said() const { return heard_.of(wait.error); }
    int said(size_t i) const
    {
        return said() != MPI_SUCCESS ? statuses_[i].MPI_ERROR : MPI_SUCCESS;
    }

    spin::Many wait = {};

  private:
    bool lend_all()
    {
        for (size_t i = 0; i < count_ && several_threads; i++) {
            if (Request *r = request_of(requests_[i]))
                mark_lent(*r);
        }
        bool lent = may_lend();
        for (size_t i = 0; i < count_ && lent; i++) {
            const Request *r = request_of(requests_[i]);
            lent = r == nullptr || is_native(*r);
        }
        if (!lent)
            give_all_back();
        return lent;
    }
    // Handles of complete requests are null by now, or already given back (persistent ones).
    void give_all_back()
    {
        for (size_t i = 0; i < count_ && several_threads; i++) {
            if (Request *r = request_of(requests_[i]))
                give_back(*r);
        }
    }

    static constexpr size_t few = 64;
    Heard heard_;
    size_t count_;
    MPI_Request *requests_;
    bool usable_ = false;
    size_t bytes_ = 0;
    MPI_Request some_real_[few];
    MPI_Status some_statuses_[few];
    int some_indices_[few];
    MPI_Request *real_ = some_real_;
    MPI_Status *statuses_ = some_statuses_;
    int *indices_ = some_indices_;
};

} // namespace cryo::mpi::rank
