// SPDX-License-Identifier: Apache-2.0
// Partitioned communication, which MPICH has, and Open MPI since 5.0.
#include "mpi/rank/partitioned.hpp"
#include "mpi/wrap/wrapper.hpp"

using namespace cryo;
using namespace cryo::mpi;
using cryo::capsule::call;

namespace {

// For communicators whose messages are not counted: calls the library's function.
template <class Result = int, class... Arguments>
Result by_name(const char *name, Arguments... arguments)
{
    const auto function = capsule::function<Result (*)(Arguments...)>(name);
    must_have(function, name + 1);
    return call(function, arguments...);
}

template <class Buffer>
int init_by_library(const char *name, Buffer buf, int partitions, MPI_Count count,
                    MPI_Datatype type, int peer, int tag, MPI_Comm comm, MPI_Info info,
                    MPI_Request *request)
{
    Made made(request);
    const int result = done(by_name(name, buf, partitions, count, real_of(type), peer, tag,
                                    real_of(comm), real_of(info), made.place()),
                            made);
    return rank::engine_counts && request != nullptr ? rank::track_persistent(result, request)
                                                     : result;
}

rank::Request *partitioned_of(MPI_Request request)
{
    rank::Request *r = rank::engine_counts ? rank::request_of(request) : nullptr;
    return r != nullptr && r->use == rank::Use::partitioned ? r : nullptr;
}

} // namespace

EXPORTED int PMPI_Psend_init(const void *buf, int partitions, MPI_Count count, MPI_Datatype type,
                             int dest, int tag, MPI_Comm comm, MPI_Info info, MPI_Request *request)
{
    const Inside inside;
    if (!rank::counts_partitioned(comm))
        return init_by_library("PMPI_Psend_init", buf, partitions, count, type, dest, tag, comm,
                               info, request);
    return rank::make_partitioned(true, buf, partitions, count, type, dest, tag, comm, request);
}
ALIAS(MPI_Psend_init, PMPI_Psend_init)

EXPORTED int PMPI_Precv_init(void *buf, int partitions, MPI_Count count, MPI_Datatype type,
                             int source, int tag, MPI_Comm comm, MPI_Info info,
                             MPI_Request *request)
{
    const Inside inside;
    if (!rank::counts_partitioned(comm))
        return init_by_library("PMPI_Precv_init", buf, partitions, count, type, source, tag, comm,
                               info, request);
    return rank::make_partitioned(false, buf, partitions, count, type, source, tag, comm, request);
}
ALIAS(MPI_Precv_init, PMPI_Precv_init)

EXPORTED int PMPI_Pready(int partition, MPI_Request request)
{
    const Inside inside;
    rank::Request *r = partitioned_of(request);
    return r != nullptr ? rank::send_part(*r, partition)
                        : by_name("PMPI_Pready", partition, real_of(request));
}
ALIAS(MPI_Pready, PMPI_Pready)

EXPORTED int PMPI_Pready_range(int low, int high, MPI_Request request)
{
    const Inside inside;
    rank::Request *r = partitioned_of(request);
    if (r == nullptr)
        return by_name("PMPI_Pready_range", low, high, real_of(request));
    int result = MPI_SUCCESS;
    for (int i = low; i <= high && result == MPI_SUCCESS; i++)
        result = rank::send_part(*r, i);
    return result;
}
ALIAS(MPI_Pready_range, PMPI_Pready_range)

EXPORTED int PMPI_Pready_list(int length, int partitions[], MPI_Request request)
{
    const Inside inside;
    rank::Request *r = partitioned_of(request);
    if (r == nullptr)
        return by_name("PMPI_Pready_list", length, partitions, real_of(request));
    int result = MPI_SUCCESS;
    for (int i = 0; i < length && result == MPI_SUCCESS; i++)
        result = rank::send_part(*r, partitions[i]);
    return result;
}
ALIAS(MPI_Pready_list, PMPI_Pready_list)

EXPORTED int PMPI_Parrived(MPI_Request request, int partition, int *flag)
{
    const Inside inside;
    rank::Request *r = partitioned_of(request);
    if (r == nullptr)
        return by_name("PMPI_Parrived", real_of(request), partition, flag);
    return rank::ask_for_part(*r, partition, flag);
}
ALIAS(MPI_Parrived, PMPI_Parrived)
