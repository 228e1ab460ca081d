// SPDX-License-Identifier: Apache-2.0
// MPI_Isendrecv and MPI_Isendrecv_replace, built from other MPI functions: the request is the
// receive's. So that its end completes both, a copy is sent, which is kept until it is sent.
//
// RULE: a thread that holds a lock or is in capsule::keep must be Inside, where no signal stops it;
// between the MPI functions it must not be, because a checkpoint may come then.
#include "mpi/capsule/lock.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstring>
#include <utility>

namespace cryo::mpi {

namespace {

struct Copy {
    Copy *next;
    MPI_Request request;
    size_t bytes; // including this header
    char *data() { return reinterpret_cast<char *>(this + 1); }
};

capsule::Lock lock;
Copy *copies; // sends under way

Copy *make_copy(size_t bytes)
{
    const Inside inside;
    auto *copy = static_cast<Copy *>(capsule::keep(bytes));
    if (copy != nullptr)
        copy->bytes = bytes;
    return copy;
}

void drop(Copy *copy)
{
    const Inside inside;
    capsule::unkeep(copy, copy->bytes);
}

void add(Copy *copy)
{
    const Inside inside;
    const capsule::Hold hold(lock);
    copy->next = std::exchange(copies, copy);
}

Copy *take_all()
{
    const Inside inside;
    const capsule::Hold hold(lock);
    return std::exchange(copies, nullptr);
}

// Holds no lock while waiting: a checkpoint may come.
void drop_sent(bool wait)
{
    Copy *next = nullptr;
    for (Copy *copy = take_all(); copy != nullptr; copy = next) {
        next = copy->next;
        int flag = 1;
        if (wait)
            PMPI_Wait(&copy->request, MPI_STATUS_IGNORE);
        else
            PMPI_Test(&copy->request, &flag, MPI_STATUS_IGNORE);
        if (flag != 0)
            drop(copy);
        else
            add(copy);
    }
}

rank::Span span_beyond_packing(const void *buffer, int count, MPI_Datatype type)
{
    const Inside inside;
    return rank::span_beyond_packing(buffer, count, type);
}

// Packed; or as it lies, if it is too much for MPI_Pack.
int send_copy(const void *buffer, int count, MPI_Datatype type, int target, int tag, MPI_Comm comm)
{
    drop_sent(false);
    const rank::Span span = span_beyond_packing(buffer, count, type);
    int size = 0;
    int used = 0;
    int result = span.bytes != 0 ? MPI_SUCCESS : PMPI_Pack_size(count, type, comm, &size);
    if (result != MPI_SUCCESS)
        return result;
    auto *copy = make_copy(sizeof(Copy) + (span.bytes != 0 ? span.bytes : size_t(size)));
    if (copy == nullptr)
        return MPI_ERR_NO_MEM;
    if (span.bytes != 0) {
        memcpy(copy->data(), static_cast<const char *>(buffer) + span.lower, span.bytes);
        result =
            PMPI_Isend(copy->data() - span.lower, count, type, target, tag, comm, &copy->request);
    } else {
        result = PMPI_Pack(buffer, count, type, copy->data(), size, &used, comm);
        if (result == MPI_SUCCESS)
            result = PMPI_Isend(copy->data(), used, MPI_PACKED, target, tag, comm, &copy->request);
    }
    if (result == MPI_SUCCESS)
        add(copy);
    else
        drop(copy);
    return result;
}

} // namespace

void finish_copies()
{
    drop_sent(true);
}

} // namespace cryo::mpi

using namespace cryo::mpi;

// The data to send is read before anything is received: the buffers may be the same.
EXPORTED int PMPI_Isendrecv(const void *sendbuf, int sendcount, MPI_Datatype sendtype, int dest,
                            int sendtag, void *recvbuf, int recvcount, MPI_Datatype recvtype,
                            int source, int recvtag, MPI_Comm comm, MPI_Request *request)
{
    const int result = send_copy(sendbuf, sendcount, sendtype, dest, sendtag, comm);
    return result != MPI_SUCCESS
               ? result
               : PMPI_Irecv(recvbuf, recvcount, recvtype, source, recvtag, comm, request);
}
ALIAS(MPI_Isendrecv, PMPI_Isendrecv)

EXPORTED int PMPI_Isendrecv_replace(void *buffer, int count, MPI_Datatype type, int dest,
                                    int sendtag, int source, int recvtag, MPI_Comm comm,
                                    MPI_Request *request)
{
    return PMPI_Isendrecv(buffer, count, type, dest, sendtag, buffer, count, type, source, recvtag,
                          comm, request);
}
ALIAS(MPI_Isendrecv_replace, PMPI_Isendrecv_replace)
