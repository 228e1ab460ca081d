// SPDX-License-Identifier: Apache-2.0
// Functions with large counts that mpich.py does not generate.
#include "mpi/wrap/mpich/large.hpp"
#include "mpi/stock/fatal.hpp"

#include <climits>
#include <utility>

namespace cryo::mpi {

using capsule::call;

Elements::Elements(MPI_Count count, MPI_Datatype type)
    : count_(static_cast<int>(count)), type_(type)
{
    if (count <= INT_MAX)
        return; // a negative count is an error, and the library reports it
    const Inside inside;
    Made made(&type_);
    made_ = done(call(stock.Type_contiguous_c, count, real_of(type), made.place()), made) ==
                MPI_SUCCESS &&
            PMPI_Type_commit(&type_) == MPI_SUCCESS;
    if (!made_)
        fatal("no datatype can be made for a message of %lld elements",
              static_cast<long long>(count));
    count_ = 1;
}

Elements::~Elements()
{
    if (made_)
        PMPI_Type_free(&type_);
}

namespace {

int narrow(MPI_Count size, const char *what)
{
    if (size > INT_MAX)
        fatal("%s of %lld bytes is not covered; run this program without cr_run", what,
              static_cast<long long>(size));
    return static_cast<int>(size);
}

// The program's operations that take the number of elements as a large count. Each is registered
// through a function of ours that takes an int, like an ordinary operation of the program.
constexpr size_t most = 64;
MPI_User_function_c *operations[most];

template <size_t slot>
void apply(void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Count large = *count;
    operations[slot](in, inout, &large, type);
}

template <size_t... slots>
MPI_User_function *function_of(size_t slot, std::index_sequence<slots...> /*all*/)
{
    static MPI_User_function *const all[] = {apply<slots>...};
    return all[slot];
}

size_t slot_of(MPI_User_function_c *function)
{
    for (size_t slot = 0; slot < most; slot++) {
        MPI_User_function_c *none = nullptr;
        if (__atomic_compare_exchange_n(&operations[slot], &none, function, false, __ATOMIC_SEQ_CST,
                                        __ATOMIC_SEQ_CST) ||
            none == function)
            return slot;
    }
    fatal("the program uses more than %zu functions with large counts as MPI operations", most);
}

} // namespace

} // namespace cryo::mpi

using namespace cryo::mpi;
using cryo::capsule::call;

EXPORTED int PMPI_Buffer_attach_c(void *buffer, MPI_Count size)
{
    return PMPI_Buffer_attach(buffer, narrow(size, "A buffer for messages"));
}
ALIAS(MPI_Buffer_attach_c, PMPI_Buffer_attach_c)

EXPORTED int PMPI_Buffer_detach_c(void *buffer, MPI_Count *size)
{
    int bytes = 0;
    const int result = PMPI_Buffer_detach(buffer, &bytes);
    *size = bytes;
    return result;
}
ALIAS(MPI_Buffer_detach_c, PMPI_Buffer_detach_c)

EXPORTED int PMPI_Op_create_c(MPI_User_function_c *function, int commute, MPI_Op *op)
{
    return PMPI_Op_create(function_of(slot_of(function), std::make_index_sequence<most>()), commute,
                          op);
}
ALIAS(MPI_Op_create_c, PMPI_Op_create_c)

EXPORTED int PMPI_Type_get_contents_c(MPI_Datatype type, MPI_Count max_integers,
                                      MPI_Count max_addresses, MPI_Count max_large,
                                      MPI_Count max_types, int integers[], MPI_Aint addresses[],
                                      MPI_Count large[], MPI_Datatype types[])
{
    const Inside inside;
    MPI_Count counts[4] = {};
    int combiner = 0;
    call(stock.Type_get_envelope_c, real_of(type), &counts[0], &counts[1], &counts[2], &counts[3],
         &combiner);
    const int result = call(stock.Type_get_contents_c, real_of(type), max_integers, max_addresses,
                            max_large, max_types, integers, addresses, large, types);
    for (MPI_Count i = 0; result == MPI_SUCCESS && i < counts[3]; i++)
        types[i] = adopt(types[i]);
    return result;
}
ALIAS(MPI_Type_get_contents_c, PMPI_Type_get_contents_c)

EXPORTED int PMPI_Win_allocate_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                                 void *place, MPI_Win *win)
{
    return PMPI_Win_allocate(size, narrow(unit, "A unit of a window"), info, comm, place, win);
}
ALIAS(MPI_Win_allocate_c, PMPI_Win_allocate_c)

EXPORTED int PMPI_Win_allocate_shared_c(MPI_Aint size, MPI_Aint unit, MPI_Info info, MPI_Comm comm,
                                        void *place, MPI_Win *win)
{
    return PMPI_Win_allocate_shared(size, narrow(unit, "A unit of a window"), info, comm, place,
                                    win);
}
ALIAS(MPI_Win_allocate_shared_c, PMPI_Win_allocate_shared_c)

EXPORTED int PMPI_Win_create_c(void *base, MPI_Aint size, MPI_Aint unit, MPI_Info info,
                               MPI_Comm comm, MPI_Win *win)
{
    return PMPI_Win_create(base, size, narrow(unit, "A unit of a window"), info, comm, win);
}
ALIAS(MPI_Win_create_c, PMPI_Win_create_c)

EXPORTED int PMPI_Win_shared_query_c(MPI_Win win, int rank, MPI_Aint *size, MPI_Aint *unit,
                                     void *place)
{
    int narrowed = 0;
    const int result = PMPI_Win_shared_query(win, rank, size, &narrowed, place);
    *unit = narrowed;
    return result;
}
ALIAS(MPI_Win_shared_query_c, PMPI_Win_shared_query_c)

EXPORTED int PMPI_Isendrecv_c(const void *sendbuf, MPI_Count sendcount, MPI_Datatype sendtype,
                              int dest, int sendtag, void *recvbuf, MPI_Count recvcount,
                              MPI_Datatype recvtype, int source, int recvtag, MPI_Comm comm,
                              MPI_Request *request)
{
    const Elements sent(sendcount, sendtype);
    const Elements received(recvcount, recvtype);
    return PMPI_Isendrecv(sendbuf, sent.count(), sent.type(), dest, sendtag, recvbuf,
                          received.count(), received.type(), source, recvtag, comm, request);
}
ALIAS(MPI_Isendrecv_c, PMPI_Isendrecv_c)

EXPORTED int PMPI_Isendrecv_replace_c(void *buffer, MPI_Count count, MPI_Datatype type, int dest,
                                      int sendtag, int source, int recvtag, MPI_Comm comm,
                                      MPI_Request *request)
{
    return PMPI_Isendrecv_c(buffer, count, type, dest, sendtag, buffer, count, type, source,
                            recvtag, comm, request);
}
ALIAS(MPI_Isendrecv_replace_c, PMPI_Isendrecv_replace_c)
