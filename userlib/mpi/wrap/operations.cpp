// SPDX-License-Identifier: Apache-2.0
// The program's operations (MPI_Op_create), in C, in Fortran, and in C++ through the bindings that
// MPI-3 has removed.
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/callback.hpp"
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

// In C++ a function of the C++ library comes in between. Open MPI creates the operation with that
// one, and the library passes it the program's; MPICH's C++ library registers it afterwards.
#ifdef OPEN_MPI
using CxxFunction = void(void *, void *, int *, MPI_Datatype *, MPI_User_function *);
bool is_cxx[most];

void set_cxx(MPI_Op real, MPI_User_function *function)
{
    const auto set =
        capsule::function<void (*)(MPI_Op, MPI_User_function *)>("ompi_op_set_cxx_callback");
    must_have(set, "ompi_op_set_cxx_callback");
    capsule::call(set, real, function);
}

bool apply_in_cxx(size_t slot, void *in, void *inout, int *count, MPI_Datatype type,
                  MPI_User_function *function)
{
    if (!is_cxx[slot])
        return false;
    call_home(reinterpret_cast<CxxFunction *>(functions.at(slot)), in, inout, count, &type,
              function);
    return true;
}
#else
using CxxFunction = void(void *, void *, int, MPI_Datatype, MPI_User_function *);
CxxFunction *in_cxx[most];

bool apply_in_cxx(size_t slot, void *in, void *inout, const int *count, MPI_Datatype type,
                  MPI_User_function * /*unused*/)
{
    if (in_cxx[slot] == nullptr)
        return false;
    call_home(in_cxx[slot], in, inout, *count, type,
              reinterpret_cast<MPI_User_function *>(functions.at(slot)));
    return true;
}
#endif

// Open MPI's Fortran library marks the operation after creating it, so the mark is read when the
// operation is used. It is read from the last operation that was created with the function.
Object *operations[most];

void apply(size_t slot, void *in, void *inout, int *count, MPI_Datatype *type,
           MPI_User_function *cxx)
{
    const Shown shown(*type);
    auto ours = shown.as<MPI_Datatype>();
    if (apply_in_cxx(slot, in, inout, count, ours, cxx))
        return;
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

// The library passes the last argument only if there is one; otherwise it is undefined.
template <size_t slot>
void apply_slot(void *in, void *inout, int *count, MPI_Datatype *type, MPI_User_function *cxx)
{
    apply(slot, in, inout, count, type, cxx);
}

template <size_t... slots>
MPI_User_function *function_of(size_t slot, std::index_sequence<slots...>)
{
    using Function = void(void *, void *, int *, MPI_Datatype *, MPI_User_function *);
    static Function *const all[] = {apply_slot<slots>...};
    return reinterpret_cast<MPI_User_function *>(reinterpret_cast<void *>(all[slot]));
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
#ifdef OPEN_MPI
    if (is_cxx[operation->slot])
        set_cxx(made, reinterpret_cast<MPI_User_function *>(operation->state));
#endif
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

#ifdef OPEN_MPI
EXPORTED void ompi_op_set_cxx_callback(MPI_Op op, MPI_User_function *function)
{
    const Inside inside;
    Object *operation = object_of(op);
    operation->state = reinterpret_cast<void *>(function);
    is_cxx[operation->slot] = true;
    set_cxx(real_of(op), function);
}
#else
EXPORTED void MPII_Op_set_cxx(MPI_Op op, void (*function)())
{
    const Inside inside;
    in_cxx[object_of(op)->slot] = reinterpret_cast<CxxFunction *>(function);
}
#endif
