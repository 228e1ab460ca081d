// SPDX-License-Identifier: Apache-2.0
// Waits and tests. While no checkpoint is pending and the library knows all of the requests, a loop
// inside the capsule asks the library for all of them; otherwise each is polled by itself.
#include "functions.gen.hpp"
#include "mpi/rank/completion.hpp"
#include "mpi/rank/fruitless.hpp"
#include "mpi/rank/natives.hpp"
#include "mpi/rank/spin.hpp"

namespace cryo::mpi::traffic {

using namespace rank;
using capsule::call;

namespace {

MPI_Status *at(MPI_Status *statuses, size_t i)
{
    return statuses == MPI_STATUSES_IGNORE ? MPI_STATUS_IGNORE : statuses + i;
}

// Hands over all requests, which are complete.
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

// Completes requests according to the library's answer for all of them.
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

// Hands over all complete requests; also returns the number of active ones.
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

// Another thread may be asking the library for this receive right now. So nothing is freed here:
// the outcome is for whoever asks next.
int cancel_in_library(Request &r)
{
    MPI_Request real = *real_place(r);
    if (r.to_cancel || real == real_null_request()) // or it is complete, which is not noted yet
        return MPI_SUCCESS;
    r.to_cancel = true;
    return call(stock.Cancel, &real);
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
    if (may_lend() && is_native(*r) && !(is_special && several_threads)) {
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
        if (lent && !r->complete && !must_attend) {
            fruitless_tests.were(1, request);
            return MPI_SUCCESS;
        }
    }
    *flag = r == nullptr || poll(*r);
    if (*flag == 0) {
        if (must_attend)
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
            if (!must_attend) {
                fruitless_tests.were(count, requests);
                return MPI_SUCCESS;
            }
        }
    }
    *flag = polled(length(count), requests) == length(count);
    if (*flag == 0) {
        if (must_attend)
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
            if (!must_attend) {
                fruitless_tests.were(count, requests);
                return MPI_SUCCESS;
            }
        }
    }
    bool any_active = true;
    const int found = find_complete(length(count), requests, any_active);
    *index = found < 0 ? MPI_UNDEFINED : found;
    *flag = found >= 0 || !any_active;
    if (*flag == 0) {
        if (must_attend)
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
            if (natives.wait.flag != 0 || natives.wait.error != MPI_SUCCESS || !must_attend)
                return natively_some(natives, outcount, indices, statuses);
        }
    }
    size_t active = 0;
    const int result = hand_over_some(length(count), requests, outcount, indices, statuses, active);
    if (*outcount != 0)
        pause_over();
    else if (must_attend)
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
    else if (must_attend)
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
    if (r->complete) // perhaps completed at a cut: unknown to the library, and too late
        return MPI_SUCCESS;
    if (r->use != Use::receive)
        return call(stock.Cancel, real_place(*r));
    if (!r->active)
        return MPI_SUCCESS;
    if (several_threads && r->state == bookmark::Receive::State::posted)
        return cancel_in_library(*r);
    engine->receives().cancel(*r);
    return MPI_SUCCESS;
}

} // namespace cryo::mpi::traffic
