// SPDX-License-Identifier: Apache-2.0
// Functions of Open MPI 5.0 that a program cannot call here.
#include "mpi/wrap/fatal.hpp"
#include "mpi/wrap/wrapper.hpp"

#define REFUSED(name)                                                                              \
    EXPORTED void name()                                                                           \
    {                                                                                              \
        cryo::mpi::fatal("%s is not supported; run without Cryo", #name);                          \
    }

// For jobs that go on after a process has failed.
REFUSED(PMPIX_Comm_ack_failed)
REFUSED(PMPIX_Comm_agree)
REFUSED(PMPIX_Comm_failure_ack)
REFUSED(PMPIX_Comm_failure_get_acked)
REFUSED(PMPIX_Comm_get_failed)
REFUSED(PMPIX_Comm_iagree)
REFUSED(PMPIX_Comm_is_revoked)
REFUSED(PMPIX_Comm_revoke)
REFUSED(PMPIX_Comm_shrink)
REFUSED(MPIX_Comm_ack_failed)
REFUSED(MPIX_Comm_agree)
REFUSED(MPIX_Comm_failure_ack)
REFUSED(MPIX_Comm_failure_get_acked)
REFUSED(MPIX_Comm_get_failed)
REFUSED(MPIX_Comm_iagree)
REFUSED(MPIX_Comm_is_revoked)
REFUSED(MPIX_Comm_revoke)
REFUSED(MPIX_Comm_shrink)

// Partitioned messages find each other by messages on the program's own communicator. A checkpoint
// that comes between MPI_Psend_init and MPI_Precv_init would take these for the program's.
REFUSED(PMPI_Parrived)
REFUSED(PMPI_Pready)
REFUSED(PMPI_Pready_list)
REFUSED(PMPI_Pready_range)
REFUSED(PMPI_Precv_init)
REFUSED(PMPI_Psend_init)
REFUSED(MPI_Parrived)
REFUSED(MPI_Pready)
REFUSED(MPI_Pready_list)
REFUSED(MPI_Pready_range)
REFUSED(MPI_Precv_init)
REFUSED(MPI_Psend_init)
