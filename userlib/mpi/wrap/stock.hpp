// SPDX-License-Identifier: Apache-2.0
//
// The stock library's own header, as the wrappers need it.
#pragma once

#define OMPI_SKIP_MPICXX 1
#define OMPI_OMIT_MPI1_COMPAT_DECLS 0
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
#include <mpi.h>

#include <mpi-ext.h>
