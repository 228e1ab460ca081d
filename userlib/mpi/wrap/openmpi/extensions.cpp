// SPDX-License-Identifier: Apache-2.0
// Extensions of Open MPI that report the library's support for GPU memory: there is none inside a
// capsule.
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
