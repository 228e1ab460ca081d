// SPDX-License-Identifier: Apache-2.0
//
// Which family of MPI libraries a program or a launcher belongs to.
#include "mpi/stock/family.hpp"

#include <gtest/gtest.h>
#include <set>
#include <string>

using namespace cryo::mpi;

namespace {

Family launcher_with(const std::set<std::string> &variables)
{
    return launcher_in(
        [&](const char *name) { return variables.count(name) != 0 ? "1" : nullptr; });
}

} // namespace

TEST(Family, LibrariesThatProgramsNeed)
{
    for (const char *name : {"libmpi.so.40", "libmpi_mpifh.so.40", "libmpi_usempif08.so.40",
                             "libmpi_usempi_ignore_tkr.so.40", "libmpi_cxx.so.40"}) {
        EXPECT_TRUE(is_of(Family::open_mpi, name)) << name;
        EXPECT_FALSE(is_of(Family::mpich, name)) << name;
    }
    for (const char *name : {"libmpich.so.12", "libmpichfort.so.12", "libmpichcxx.so.12"}) {
        EXPECT_TRUE(is_of(Family::mpich, name)) << name;
        EXPECT_FALSE(is_of(Family::open_mpi, name)) << name;
    }
    // MPICH by other names may be another library with that interface.
    for (const char *name : {"libmpi.so.12", "libmpi.so.4", "libc.so.6", ""}) {
        EXPECT_FALSE(is_of(Family::open_mpi, name)) << name;
        EXPECT_FALSE(is_of(Family::mpich, name)) << name;
    }
}

TEST(Family, LaunchersByTheirVariables)
{
    EXPECT_EQ(launcher_with({"OMPI_COMM_WORLD_SIZE", "PMIX_NAMESPACE", "PMIX_RANK"}),
              Family::open_mpi);
    EXPECT_EQ(launcher_with({"PMI_RANK", "PMI_FD", "PMI_SIZE"}), Family::mpich);
    EXPECT_EQ(launcher_with({"PMI_ID", "PMI_PORT"}), Family::mpich);
    EXPECT_EQ(launcher_with({"PMI_RANK", "PMI_FD", "HYDI_CONTROL_FD", "SLURM_STEP_ID"}),
              Family::mpich);
    EXPECT_EQ(launcher_with({"PMI_RANK", "PMI_FD", "SLURM_STEP_ID"}), Family::unknown); // by srun
    // srun --mpi=pmi2 has passed on the variables of the Open MPI job in which it was called.
    EXPECT_EQ(launcher_with({"OMPI_COMM_WORLD_SIZE", "PMI_RANK", "PMI_FD", "SLURM_STEP_ID"}),
              Family::unknown);
    for (const char *both : {"FLUX_JOB_ID", "PALS_APID"}) {
        EXPECT_EQ(launcher_with({"PMI_RANK", "PMI_FD", both}), Family::unknown) << both;
        EXPECT_EQ(launcher_with({"PMI_RANK", "PMI_PORT", both}), Family::mpich) << both;
        EXPECT_EQ(launcher_with({"PMI_RANK", "HYDI_CONTROL_FD", both}), Family::mpich) << both;
    }
    EXPECT_EQ(launcher_with({}), Family::unknown);
    EXPECT_EQ(launcher_with({"PMIX_NAMESPACE", "PMIX_RANK"}), Family::unknown); // srun --mpi=pmix
    EXPECT_EQ(launcher_with({"PMIX_NAMESPACE", "PMI_RANK"}), Family::unknown);
    EXPECT_EQ(launcher_with({"OMPI_COMM_WORLD_SIZE", "PMI_RANK"}), Family::unknown); // nested
}
