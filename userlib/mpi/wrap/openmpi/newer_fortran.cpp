// SPDX-License-Identifier: Apache-2.0
// What Open MPI's Fortran libraries have needed since 5.0. Of these, what they look for inside the
// C library's objects is not known here, so a program that uses them is refused.
#include "mpi/wrap/fatal.hpp"
#include "mpi/wrap/fortran.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstring>
#include <dlfcn.h>

namespace cryo::mpi {

void refuse_unknown_fortran()
{
    if (capsule::symbol("ompi_instance_count") == nullptr)
        return; // 4.1
    // The library of mpif.h, on which the others stand.
    if (void *found = dlopen("libmpi_mpifh.so.40", RTLD_LAZY | RTLD_NOLOAD)) {
        dlclose(found);
        fatal("Fortran programs are not supported with Open MPI 5.0; run without Cryo, or with "
              "Open MPI 4.1");
    }
}

} // namespace cryo::mpi

// So that it can be loaded, and refused.
extern "C" {
[[gnu::visibility("default")]] extern int ompi_instance_count;
int ompi_instance_count;
}

// Statuses of mpi_f08: the same six words in every language.

namespace {

int copy_status(const void *from, void *to)
{
    if (from == MPI_F_STATUS_IGNORE || from == MPI_F_STATUSES_IGNORE || from == MPI_STATUS_IGNORE ||
        from == MPI_STATUSES_IGNORE)
        return MPI_ERR_IN_STATUS;
    memcpy(to, from, sizeof(MPI_Status));
    return MPI_SUCCESS;
}

} // namespace

struct ompi_f08_status_public_t;
using F08Status = ompi_f08_status_public_t;

EXPORTED int PMPI_Status_c2f08(const MPI_Status *status, F08Status *f08_status)
{
    return copy_status(status, f08_status);
}
ALIAS(MPI_Status_c2f08, PMPI_Status_c2f08)

EXPORTED int PMPI_Status_f082c(const F08Status *f08_status, MPI_Status *status)
{
    return copy_status(f08_status, status);
}
ALIAS(MPI_Status_f082c, PMPI_Status_f082c)

EXPORTED int PMPI_Status_f082f(const F08Status *f08_status, MPI_Fint *words)
{
    return copy_status(f08_status, words);
}
ALIAS(MPI_Status_f082f, PMPI_Status_f082f)

EXPORTED int PMPI_Status_f2f08(const MPI_Fint *words, F08Status *f08_status)
{
    return copy_status(words, f08_status);
}
ALIAS(MPI_Status_f2f08, PMPI_Status_f2f08)
