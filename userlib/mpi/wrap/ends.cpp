// SPDX-License-Identifier: Apache-2.0
// The ways out of a rank that the program takes, and those of the MPI library. MPI_Finalize is told
// where the rank leaves the job; a rank that is killed tells nothing.
#include "mpi/wrap/ends.hpp"
#include "coord/rank_end.hpp"
#include "mpi/wrap/life.hpp"
#include "mpi/wrap/wrapper.hpp"
#include "sys/raw.hpp"

#include <cstdlib>
#include <unistd.h>

namespace cryo::mpi {

namespace {

// MPI of a program with sessions alone ends later than this, and then the rank has done its part.
void exits(int /*status*/, void * /*unused*/)
{
    if (!ends_with_process())
        coord::tell_end(coord::Ending::by_itself);
}

void library_gives_up()
{
    coord::tell_end(coord::Ending::given_up);
}

[[noreturn]] void end_process(int status)
{
    coord::tell_end(coord::Ending::by_itself);
    for (;;)
        sys::call(SYS_exit_group, status);
}

} // namespace

void tell_of_ends()
{
    on_exit(exits, nullptr);
    capsule::on_giving_up(library_gives_up);
}

} // namespace cryo::mpi

using namespace cryo;
using namespace cryo::mpi;
using cryo::capsule::call;

EXPORTED int PMPI_Abort(MPI_Comm comm, int errorcode)
{
    const Inside inside;
    coord::tell_end(coord::Ending::by_itself);
    return call(stock.Abort, real_of(comm), errorcode);
}
ALIAS(MPI_Abort, PMPI_Abort)

// The program's; exit() does not come by here.
EXPORTED void _exit(int status)
{
    end_process(status);
}

EXPORTED void _Exit(int status) noexcept
{
    end_process(status);
}
