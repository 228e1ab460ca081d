// SPDX-License-Identifier: Apache-2.0
//
// The families of MPI libraries: which one a program is made for, by the libraries that it needs,
// and whose launcher has started a rank, by the variables that only that launcher sets.
//
//     if (is_of(Family::mpich, "libmpich.so.12")) ...
//     const Family launcher = launcher_in([&](const char *name) { return variable(all, name); });
#pragma once

#include <cstring>

namespace cryo::mpi {

enum class Family { unknown, open_mpi, mpich };

constexpr const char *name_of(Family family)
{
    return family == Family::open_mpi ? "Open MPI" : "MPICH";
}

// As it is called where both are installed.
constexpr const char *launcher_of(Family family)
{
    return family == Family::open_mpi ? "mpirun.openmpi" : "mpiexec.hydra";
}

constexpr Family other_than(Family family)
{
    return family == Family::open_mpi ? Family::mpich : Family::open_mpi;
}

inline bool is_of(Family family, const char *library)
{
    constexpr const char *open_mpi[] = {"libmpi.so.40", "libmpi_mpifh.so.40", "libmpi_usempi",
                                        "libmpi_cxx.so.40"};
    constexpr const char *mpich = "libmpich";
    if (family == Family::mpich)
        return strncmp(library, mpich, strlen(mpich)) == 0;
    for (const char *beginning : open_mpi) {
        if (strncmp(library, beginning, strlen(beginning)) == 0)
            return family == Family::open_mpi;
    }
    return false;
}

// Unknown also where both have left variables: the one within a job of the other. Slurm, Flux and
// PALS start ranks of both families, by PMI or by PMIx: there PMI alone says nothing, and Open
// MPI's variable may have come with the environment in which the job was started.
template <class Variable>
Family launcher_in(const Variable &variable)
{
    const auto has = [&](const char *name) { return variable(name) != nullptr; };
    const bool open_mpi = has("OMPI_COMM_WORLD_SIZE");
    const bool pmi = has("PMI_RANK") || has("PMI_ID") || has("PMI_FD");
    const bool either = has("SLURM_STEP_ID") || has("FLUX_JOB_ID") || has("PALS_APID");
    const bool mpich = has("HYDI_CONTROL_FD") || has("PMI_PORT") || (pmi && !either);
    const bool pmix = has("PMIX_NAMESPACE") || has("PMIX_RANK");
    if (open_mpi && !mpich && !pmi)
        return Family::open_mpi;
    return mpich && !open_mpi && !pmix ? Family::mpich : Family::unknown;
}

} // namespace cryo::mpi
