// SPDX-License-Identifier: Apache-2.0
// Functions of Open MPI 5.0 that a program cannot call here.
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/wrapper.hpp"

#define REFUSED(name)                                                                              \
    EXPORTED void name()                                                                           \
    {                                                                                              \
        cryo::mpi::fatal("%s is not supported; run without Cryo", #name);                          \
    }

// Fault tolerance: for jobs that continue after a process has failed.
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
