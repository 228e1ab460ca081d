// SPDX-License-Identifier: Apache-2.0
// Operations of the program's (MPI_Op_create), in C and in Fortran.
#include "mpi/wrap/callback.hpp"
#include "mpi/wrap/fatal.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <utility>

namespace cryo::mpi {

namespace {

using capsule::call_home;
using FortranFunction = void(void *, void *, MPI_Fint *, MPI_Fint *);

constexpr size_t most = 256;

Slots<most> functions;
bool is_fortran[most]; // a function is written in one language

// Open MPI's Fortran library marks the operation after it was created, so what the mark says is
// looked up when it is used. Ours to look at: the operation that was last made with the function.
Object *operations[most];

void apply(size_t slot, void *in, void *inout, int *count, MPI_Datatype *type)
{
    MPI_Datatype ours = known(*type);
    Object *operation = operations[slot];
    if (operation != nullptr && (operation->operation_flags & operation_is_fortran) != 0)
        is_fortran[slot] = true;
    if (!is_fortran[slot]) {
        call_home(reinterpret_cast<MPI_User_function *>(functions.at(slot)), in, inout, count,
                  &ours);
        return;
    }
    MPI_Fint number = fortran_number(ours);
    call_home(reinterpret_cast<FortranFunction *>(functions.at(slot)), in, inout, count, &number);
}

template <size_t slot>
void apply_slot(void *in, void *inout, int *count, MPI_Datatype *type)
{
    apply(slot, in, inout, count, type);
}

template <size_t... slots>
MPI_User_function *function_of(size_t slot, std::index_sequence<slots...>)
{
    static MPI_User_function *const all[] = {apply_slot<slots>...};
    return all[slot];
}

} // namespace

bool replay_operation(Object *operation, Why &why)
{
    MPI_Op made = nullptr;
    const int result = capsule::call(stock.Op_create,
                                     function_of(operation->slot, std::make_index_sequence<most>()),
                                     static_cast<int>(operation->variant), &made);
    if (!worked(result, "making an operation again", why))
        return false;
    bind_object(operation, made);
    return true;
}

} // namespace cryo::mpi

using namespace cryo::mpi;

EXPORTED int PMPI_Op_create(MPI_User_function *function, int commute, MPI_Op *op)
{
    const Inside inside;
    const int slot = functions.find_or_add(reinterpret_cast<void *>(function));
    if (slot < 0)
        fatal("the program uses more than %zu functions as MPI operations", most);
    Made made(op);
    const int result = done(cryo::capsule::call(stock.Op_create,
                                                function_of(static_cast<size_t>(slot),
                                                            std::make_index_sequence<most>()),
                                                commute, made.place()),
                            made);
    if (result == MPI_SUCCESS) {
        operations[slot] = made.object();
        made.object()->slot = static_cast<uint32_t>(slot);
        made.object()->variant = commute != 0;
    }
    return result;
}
ALIAS(MPI_Op_create, PMPI_Op_create)
