// SPDX-License-Identifier: Apache-2.0
// Waits and tests. While nothing is wanted and the library knows all of the requests, the library
// is asked, in a loop inside the capsule; otherwise each is asked for by itself.
#include "functions.gen.hpp"
#include "mpi/rank/completion.hpp"
#include "mpi/rank/fruitless.hpp"
#include "mpi/rank/memory.hpp"
#include "mpi/rank/spin.hpp"

#include <memory_resource>
#include <vector>

namespace cryo::mpi::traffic {

using namespace rank;
using capsule::call;

namespace {

bool is_active(MPI_Request request)
{
    const Request *r = request_of(request);
    return r != nullptr && r->active;
}

// The library's handles of an array of requests, and room for what it says. While this lives, the
// requests that are not complete are lent.
class Natives
{
  public:
    Natives(int count, MPI_Request *requests, bool once = false)
        : count_(count > 0 && requests != nullptr ? static_cast<size_t>(count) : 0),
          requests_(requests)
    {
        if (attention || !lend_all())
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

    // The library has completed the i-th, as status j says: the program's handle is given back.
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
    // What the library has said, of all and, if that is an error, of the i-th.
    int said() const { return heard_.of(wait.error); }
    int said(size_t i) const
    {
        return said() != MPI_SUCCESS ? statuses_[i].MPI_ERROR : MPI_SUCCESS;
    }

    spin::Many wait = {};

  private:
    bool lend_all()
    {
        for (size_t i = 0; i < count_ && many; i++) {
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
    // Those that are complete are null by now, or were given back (persistent ones).
    void give_all_back()
    {
        for (size_t i = 0; i < count_ && many; i++) {
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

MPI_Status *at(MPI_Status *statuses, size_t i)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i;
}

// Gives back all of them, which are complete.
int hand_over_all(size_t count, MPI_Request *requests, MPI_Status *statuses)
{
    int result = MPI_SUCCESS;
    Untold untold;
    for (size_t i = 0; i < count; i++) {
        MPI_Status *status = at(statuses, i);
        const int error = hand_over(&requests[i], status, untold);
        if (error != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = error;
    }
    return result != MPI_SUCCESS ? in_status(untold) : result;
}

// What the library has said of all of them, at once.
int natively_all(Natives &natives, size_t count, MPI_Status *statuses)
{
    for (size_t i = 0; i < count; i++) {
        MPI_Status *status = at(statuses, i);
        if (natives.said() != MPI_SUCCESS && natives.is_pending(i)) {
            if (status != MPI_STATUS_IGNORE)
                status->MPI_ERROR = MPI_ERR_PENDING;
            continue;
        }
        const int error = natives.said(i);
        natives.complete(i, i, error, status);
        if (status != MPI_STATUS_IGNORE && natives.said() != MPI_SUCCESS)
            status->MPI_ERROR = error;
    }
    return natives.wait.error;
}

int natively_any(Natives &natives, int *index, MPI_Status *status)
{
    *index = natives.wait.index;
    if (*index != MPI_UNDEFINED)
        natives.complete(static_cast<size_t>(*index), 0, natives.said(), status);
    else
        set_empty(status);
    return natives.wait.error;
}

int natively_some(Natives &natives, int *outcount, int indices[], MPI_Status *statuses)
{
    *outcount = natives.wait.done;
    if (*outcount == MPI_UNDEFINED)
        return natives.wait.error;
    for (size_t j = 0; j < static_cast<size_t>(*outcount); j++) {
        MPI_Status *status = at(statuses, j);
        const int error = natives.said(j);
        indices[j] = natives.wait.indices[j];
        natives.complete(static_cast<size_t>(indices[j]), j, error, status);
        if (status != MPI_STATUS_IGNORE && natives.said() != MPI_SUCCESS)
            status->MPI_ERROR = error;
    }
    return natives.wait.error;
}

size_t polled(size_t count, MPI_Request *requests)
{
    size_t complete = 0;
    for (size_t i = 0; i < count; i++) {
        Request *r = request_of(requests[i]);
        complete += r == nullptr || poll(*r);
    }
    return complete;
}

// The index of an active request that is complete, or -1.
int find_complete(size_t count, MPI_Request *requests, bool &any_active)
{
    any_active = false;
    for (size_t i = 0; i < count; i++) {
        if (!is_active(requests[i]))
            continue;
        any_active = true;
        if (poll(*request_of(requests[i])))
            return static_cast<int>(i);
    }
    return -1;
}

void pause_for_all(size_t count, MPI_Request *requests)
{
    for (size_t i = 0; i < count; i++) {
        if (is_active(requests[i]))
            pause_for(*request_of(requests[i]));
    }
}

size_t length(int count)
{
    return count > 0 ? static_cast<size_t>(count) : 0;
}

// All complete ones; how many requests are active comes out too.
int hand_over_some(size_t count, MPI_Request *requests, int *outcount, int indices[],
                   MPI_Status *statuses, size_t &active)
{
    int result = MPI_SUCCESS;
    Untold untold;
    active = 0;
    *outcount = 0;
    for (size_t i = 0; i < count; i++) {
        if (!is_active(requests[i]))
            continue;
        active++;
        if (!poll(*request_of(requests[i])))
            continue;
        const auto j = static_cast<size_t>((*outcount)++);
        indices[j] = static_cast<int>(i);
        MPI_Status *status = at(statuses, j);
        const int error = hand_over(&requests[i], status, untold);
        if (error != MPI_SUCCESS)
            result = MPI_ERR_IN_STATUS;
        if (status != MPI_STATUS_IGNORE)
            status->MPI_ERROR = error;
    }
    if (active == 0)
        *outcount = MPI_UNDEFINED;
    return result != MPI_SUCCESS ? in_status(untold) : result;
}

} // namespace

int Wait(MPI_Request *request, MPI_Status *status)
{
    Request *r = request_of(*request);
    if (r == nullptr || !r->active) {
        set_empty(status);
        return MPI_SUCCESS;
    }
    mark_lent(*r);
    const bool is_special = asks_communicator(*r);
    if (may_lend() && is_native(*r) && !(is_special && many)) {
        spin::One quick = {.request = real_place(*r), .status = {}, .flag = 0, .error = 0};
        const QuietWorld quiet(is_special);
        const Heard heard;
        call(spin::wait_one, &quick);
        if (quick.flag != 0)
            completed_natively(*r, quick.status, quick.error, heard.of(quick.error));
        r->untold = is_special && quick.error != MPI_SUCCESS;
    }
    give_back(*r);
    while (!poll(*r))
        pause_for(*r);
    pause_over();
    return hand_over(request, status);
}

int Test(MPI_Request *request, int *flag, MPI_Status *status)
{
    Request *r = request_of(*request);
    if (r != nullptr && r->active) {
        mark_lent(*r);
        const bool lent = may_lend() && is_native(*r) && !asks_communicator(*r);
        if (lent)
            test_natively(*r);
        give_back(*r);
        *flag = 0;
        if (lent && !r->complete && !attention) {
            fruitless.were(1, request);
            return MPI_SUCCESS;
        }
    }
    *flag = r == nullptr || poll(*r);
    if (*flag == 0) {
        if (attention)
            pause_for(*r);
        return MPI_SUCCESS;
    }
    pause_over();
    return hand_over(request, status);
}

int Waitall(int count, MPI_Request requests[], MPI_Status *statuses)
{
    {
        Natives natives(count, requests);
        if (natives.usable()) {
            call(spin::wait_all, &natives.wait);
            if (natives.wait.flag != 0 || natives.wait.error != MPI_SUCCESS)
                return natively_all(natives, length(count), statuses);
        }
    }
    while (polled(length(count), requests) != length(count))
        pause_for_all(length(count), requests);
    pause_over();
    return hand_over_all(length(count), requests, statuses);
}

int Testall(int count, MPI_Request requests[], int *flag, MPI_Status *statuses)
{
    {
        Natives natives(count, requests, true);
        if (natives.usable()) {
            call(spin::wait_all, &natives.wait);
            *flag = natives.wait.flag;
            if (*flag != 0 || natives.wait.error != MPI_SUCCESS)
                return natively_all(natives, length(count), statuses);
            if (!attention) {
                fruitless.were(count, requests);
                return MPI_SUCCESS;
            }
        }
    }
    *flag = polled(length(count), requests) == length(count);
    if (*flag == 0) {
        if (attention)
            pause_for_all(length(count), requests);
        return MPI_SUCCESS;
    }
    pause_over();
    return hand_over_all(length(count), requests, statuses);
}

int Waitany(int count, MPI_Request requests[], int *index, MPI_Status *status)
{
    {
        Natives natives(count, requests);
        if (natives.usable()) {
            call(spin::wait_any, &natives.wait);
            if (natives.wait.flag != 0 || natives.wait.error != MPI_SUCCESS)
                return natively_any(natives, index, status);
        }
    }
    bool any_active = true;
    int found = -1;
    while ((found = find_complete(length(count), requests, any_active)) < 0 && any_active)
        pause_for_all(length(count), requests);
    pause_over();
    *index = found < 0 ? MPI_UNDEFINED : found;
    if (found >= 0)
        return hand_over(&requests[found], status);
    set_empty(status);
    return MPI_SUCCESS;
}

int Testany(int count, MPI_Request requests[], int *index, int *flag, MPI_Status *status)
{
    {
        Natives natives(count, requests, true);
        if (natives.usable()) {
            call(spin::wait_any, &natives.wait);
            *flag = natives.wait.flag;
            *index = MPI_UNDEFINED;
            if (*flag != 0 || natives.wait.error != MPI_SUCCESS)
                return natively_any(natives, index, status);
            if (!attention) {
                fruitless.were(count, requests);
                return MPI_SUCCESS;
            }
        }
    }
    bool any_active = true;
    const int found = find_complete(length(count), requests, any_active);
    *index = found < 0 ? MPI_UNDEFINED : found;
    *flag = found >= 0 || !any_active;
    if (*flag == 0) {
        if (attention)
            pause_for_all(length(count), requests);
        return MPI_SUCCESS;
    }
    pause_over();
    if (found >= 0)
        return hand_over(&requests[found], status);
    set_empty(status);
    return MPI_SUCCESS;
}

int Waitsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    {
        Natives natives(count, requests);
        if (natives.usable()) {
            call(spin::wait_some, &natives.wait);
            if (natives.wait.flag != 0 || natives.wait.error != MPI_SUCCESS)
                return natively_some(natives, outcount, indices, statuses);
        }
    }
    for (;;) {
        size_t active = 0;
        const int result =
            hand_over_some(length(count), requests, outcount, indices, statuses, active);
        if (*outcount != 0) {
            pause_over();
            return result;
        }
        pause_for_all(length(count), requests);
    }
}

int Testsome(int count, MPI_Request requests[], int *outcount, int indices[], MPI_Status statuses[])
{
    {
        Natives natives(count, requests, true);
        if (natives.usable()) {
            call(spin::wait_some, &natives.wait);
            if (natives.wait.flag != 0 || natives.wait.error != MPI_SUCCESS || !attention)
                return natively_some(natives, outcount, indices, statuses);
        }
    }
    size_t active = 0;
    const int result = hand_over_some(length(count), requests, outcount, indices, statuses, active);
    if (*outcount != 0)
        pause_over();
    else if (attention)
        pause_for_all(length(count), requests);
    return result;
}

int Request_get_status(MPI_Request request, int *flag, MPI_Status *status)
{
    Request *r = request_of(request);
    if (r == nullptr || !r->active) {
        *flag = 1;
        set_empty(status);
        return MPI_SUCCESS;
    }
    if (r->use == Use::unknown)
        return call(stock.Request_get_status, mpi::real_of(request), flag, status);
    *flag = poll(*r);
    if (*flag != 0)
        set_status(status, r->status);
    else if (attention)
        pause_for(*r);
    return MPI_SUCCESS;
}

int Request_free(MPI_Request *request)
{
    MPI_Request none = real_null_request();
    Request *r = request_of(*request);
    if (r == nullptr)
        return call(stock.Request_free, &none);
    drop_orphans();
    const bool over = r->use != Use::unknown && poll(*r);
    int result = MPI_SUCCESS;
    if (r->use == Use::unknown)
        result = call(stock.Request_free, real_place(*r));
    else if (over)
        forget_persistent(*r);
    if (over || r->use == Use::unknown) {
        r->persistent = false;
        release(request);
    } else {
        make_orphan(*r);
        *request = handle_of<MPI_Request>(null_object(Kind::Request));
    }
    return result;
}

int Cancel(MPI_Request *request)
{
    MPI_Request none = real_null_request();
    Request *r = request_of(*request);
    if (r == nullptr)
        return call(stock.Cancel, &none);
    const Engine::Busy busy(*engine);
    if (r->complete) // at a cut, maybe: the library does not know it any more, and it is too late
        return MPI_SUCCESS;
    if (r->use != Use::receive)
        return call(stock.Cancel, real_place(*r));
    if (r->active)
        engine->receives().cancel(*r);
    return MPI_SUCCESS;
}

} // namespace cryo::mpi::traffic
