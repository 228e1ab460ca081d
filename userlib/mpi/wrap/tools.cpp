// SPDX-License-Identifier: Apache-2.0
// Functions that need special treatment: handles behind a void pointer, arrays of handles that are
// returned.
#include "mpi/wrap/wrapper.hpp"

using namespace cryo::mpi;
using cryo::capsule::call;

EXPORTED int PMPI_Type_get_contents(MPI_Datatype type, int max_integers, int max_addresses,
                                    int max_types, int integers[], MPI_Aint addresses[],
                                    MPI_Datatype types[])
{
    const Inside inside;
    int counts[3] = {};
    int combiner = 0;
    call(stock.Type_get_envelope, real_of(type), &counts[0], &counts[1], &counts[2], &combiner);
    const int result = call(stock.Type_get_contents, real_of(type), max_integers, max_addresses,
                            max_types, integers, addresses, types);
    for (int i = 0; result == MPI_SUCCESS && i < counts[2]; i++)
        types[i] = adopt(types[i]);
    return result;
}
ALIAS(MPI_Type_get_contents, PMPI_Type_get_contents)

namespace {

// The address of the stock library's handle, for a tool variable that is bound to an object.
struct Bound {
    void *real = nullptr;
    void *place = nullptr;

    explicit Bound(void *handle)
    {
        if (abi::first_handle(0) != 0)
            return; // MPICH has no such variables for objects with integer handles
        if (handle == nullptr || *static_cast<Object **>(handle) == nullptr)
            return;
        real = (*static_cast<Object **>(handle))->real;
        place = &real;
    }
};

} // namespace

EXPORTED int PMPI_T_cvar_handle_alloc(int index, void *object, MPI_T_cvar_handle *handle,
                                      int *count)
{
    const Inside inside;
    Bound bound(object);
    return call(stock.T_cvar_handle_alloc, index, bound.place, handle, count);
}
ALIAS(MPI_T_cvar_handle_alloc, PMPI_T_cvar_handle_alloc)

EXPORTED int PMPI_T_pvar_handle_alloc(MPI_T_pvar_session session, int index, void *object,
                                      MPI_T_pvar_handle *handle, int *count)
{
    const Inside inside;
    Bound bound(object);
    return call(stock.T_pvar_handle_alloc, session, index, bound.place, handle, count);
}
ALIAS(MPI_T_pvar_handle_alloc, PMPI_T_pvar_handle_alloc)
