// SPDX-License-Identifier: Apache-2.0
// Extensions of Open MPI's that ask what the library can do with a graphics card's memory: in a
// capsule nothing.
#include "mpi/wrap/wrapper.hpp"

#undef MPIX_Query_cuda_support
#undef MPIX_Query_rocm_support

EXPORTED int MPIX_Query_cuda_support()
{
    return 0;
}

EXPORTED int MPIX_Query_rocm_support()
{
    return 0;
}
