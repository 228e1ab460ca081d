// SPDX-License-Identifier: Apache-2.0
// What MPICH's library exports besides MPI functions, and what Open MPI's Fortran library needs and
// and MPICH's does not.
#include "mpi/wrap/fortran.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstddef>

extern "C" {
static int unweighted;
static int weights_empty;
int *const MPI_UNWEIGHTED = &unweighted;
int *const MPI_WEIGHTS_EMPTY = &weights_empty;
// Both addresses once more, for mpi_f08.
[[gnu::visibility("default")]] int *MPIR_C_MPI_UNWEIGHTED = &unweighted;
[[gnu::visibility("default")]] int *MPIR_C_MPI_WEIGHTS_EMPTY = &weights_empty;

// The library does not know this address, and takes it for that of a single handle.
struct MPIR_T_pvar_handle_s {
    char unused;
};
static MPIR_T_pvar_handle_s all_handles;
MPIR_T_pvar_handle_s *const MPI_T_PVAR_ALL_HANDLES = &all_handles;

// The Fortran library sets these.
MPI_Fint *MPI_F_STATUS_IGNORE;
MPI_Fint *MPI_F_STATUSES_IGNORE;
}

using cryo::mpi::Inside;
using cryo::mpi::must_have;

namespace cryo::mpi {

const int *abi::library_weights(const int *weights)
{
    const char *name = weights == MPI_UNWEIGHTED      ? "MPI_UNWEIGHTED"
                       : weights == MPI_WEIGHTS_EMPTY ? "MPI_WEIGHTS_EMPTY"
                                                      : nullptr;
    return name == nullptr ? weights : *static_cast<const int *const *>(capsule::symbol(name));
}

// A Fortran number is the handle itself.
void number_predefined_objects() {}
void fortran_state_changed() {}
void know_releases() {}
void mirror_communicator(Object * /*object*/) {}

} // namespace cryo::mpi

// MPI_COMM_DUP_FN and its like.
EXPORTED int MPIR_Dup_fn(MPI_Comm /*from*/, int /*keyval*/, void * /*extra*/, void *value,
                         void *copy, int *flag)
{
    *flag = 1;
    *static_cast<void **>(copy) = value;
    return MPI_SUCCESS;
}

// The library's support for GPU memory: none inside a capsule.
EXPORTED int PMPIX_Query_cuda_support()
{
    return 0;
}
ALIAS(MPIX_Query_cuda_support, PMPIX_Query_cuda_support)

EXPORTED int PMPIX_Query_ze_support()
{
    return 0;
}
ALIAS(MPIX_Query_ze_support, PMPIX_Query_ze_support)

EXPORTED int PMPIX_Query_hip_support()
{
    return 0;
}
ALIAS(MPIX_Query_hip_support, PMPIX_Query_hip_support)

EXPORTED int PMPIX_GPU_query_support(int type, int *is_supported)
{
    const Inside inside;
    constexpr char name[] = "PMPIX_GPU_query_support";
    const auto query = cryo::capsule::function<decltype(&PMPIX_GPU_query_support)>(name);
    must_have(query, name + 1);
    const int result = cryo::capsule::call(query, type, is_supported);
    if (result == MPI_SUCCESS)
        *is_supported = 0;
    return result;
}
ALIAS(MPIX_GPU_query_support, PMPIX_GPU_query_support)
