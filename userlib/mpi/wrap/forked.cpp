// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/forked.hpp"

#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/descriptor_owner.hpp"
#include "mpi/rank/inside.hpp"
#include "mpi/rank/windows.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/stock/objects.hpp"
#include "mpi/wrap/life.hpp"
#include "mpi/wrap/revive.hpp"

#include <cstdio>

namespace cryo::mpi {

namespace {

bool forked;
bool forked_inside; // in a callback of the library, to which the child would return

bool is_of_rank()
{
    return life.begun && !life.finalized;
}

// The rank gets its windows' memory anew, in a new library's segment. A child's copy of the mapping
// would not be that.
bool shares_window_memory()
{
    size_t from = 0;
    for (Object *object = next_object(from); object != nullptr; object = next_object(from)) {
        const auto *window =
            object->kind == Kind::Win ? static_cast<const rank::Window *>(object->state) : nullptr;
        if (window != nullptr && window->alias != nullptr)
            return true;
    }
    return false;
}

bool refuse_child(agent::LodgerRefusal &why, const char *what, const char *way_out)
{
    snprintf(why.what, sizeof(why.what), "a child that an MPI rank has made by fork() %s", what);
    snprintf(why.way_out, sizeof(why.way_out), "%s", way_out);
    return false;
}

} // namespace

void note_fork()
{
    if (!forked && capsule::is_open())
        capsule::note_inherited_descriptors();
    forked = forked || capsule::is_open();
    forked_inside = forked_inside || (forked && rank::depth > 0);
}

void forget_fork()
{
    forked = forked_inside = false;
}

bool is_forked()
{
    return forked;
}

bool may_be_saved_forked(agent::LodgerRefusal &why)
{
    if (forked_inside)
        return refuse_child(why, "inside an MPI call", "save the job when the child has ended");
    if (is_of_rank() && shares_window_memory())
        return refuse_child(why, "while it had a window in shared memory",
                            "save the job when the child has ended, or have the program make it "
                            "before the window");
    return true;
}

void refuse_forked()
{
    if (forked && is_of_rank())
        fatal("a child that an MPI rank has made by fork() calls MPI after a restart, and has no "
              "MPI library any more: only the rank has");
}

} // namespace cryo::mpi
