// SPDX-License-Identifier: Apache-2.0
// The life of the stock library: loaded at the first call, initialized, finalized.
#include "mpi/capsule/lock.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/forked.hpp"
#include "mpi/wrap/fortran.hpp"
#include "mpi/wrap/join.hpp"
#include "mpi/wrap/life.hpp"
#include "mpi/wrap/profilers.hpp"
#include "mpi/wrap/revive.hpp"
#include "mpi/wrap/strangers.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <atomic>
#include <cstdlib>
#include <pthread.h>
#include <unistd.h>

namespace cryo::mpi {

using capsule::call;

namespace {

void load()
{
    if (is_to_revive())
        refuse_forked();
    refuse_strangers();
    capsule::Refusal why;
    char *const *environment = job_environment();
    const char *wanted = capsule::variable(environment, "CRYO_MPI_LIBRARY");
    const char *library = wanted != nullptr ? wanted : abi::library_name;
    if (!capsule::open({.library = library,
                        .environment = environment,
                        .descriptor = abi::launcher_descriptor},
                       why))
        fatal("%s", why.text);
    if (const char *missing = load_functions())
        fatal("%s has no function %s: it is not an MPI library that Cryo knows", library, missing);
    if (const char *missing = bind_predefined())
        fatal("%s has no object %s: it is not an MPI library that Cryo knows", library, missing);
    know_releases();
    begin_lodging();
    if (!is_to_revive())
        tell_profilers_left_out();
    else if (!revive(why))
        fatal("%s", why.text);
}

} // namespace

namespace {

pid_t owner;           // the process that initialized MPI; a forked child has copies of everything
pthread_t main_thread; // initialized MPI, or began the first session

void begun()
{
    life.begun = true;
    main_thread = pthread_self();
    own_world();
    number_predefined_objects();
    join_job();
}

int initialized(int result)
{
    if (result == MPI_SUCCESS) {
        life.initialized = true;
        begun();
    }
    fortran_state_changed();
    return result;
}

// Serves MPI_Init if a session has initialized the library already, with the highest thread level.
bool is_begun_for_sessions(int level)
{
    if (!life.is_for_sessions || life.initialized || life.finalized)
        return false;
    life.initialized = true;
    main_thread = pthread_self();
    life.granted = level;
    return true;
}

int finalize()
{
    const bool counted = rank::engine_counts;
    rank::Collective turn(MPI_COMM_WORLD);
    if (counted)
        rank::engine->mpi().end();
    const int result = call(stock.Finalize);
    life.finalized = life.finalized || result == MPI_SUCCESS;
    life.is_uncounted = life.is_uncounted || life.sessions > 0;
    if (counted)
        rank::end();
    fortran_state_changed();
    capsule::flush();
    return result;
}

// A program that uses only sessions makes no call that could do this.
[[gnu::destructor]] void end_for_sessions()
{
    if (!ends_with_process())
        return;
    const Inside inside;
    finalize();
}

} // namespace

bool ends_with_process()
{
    return life.is_for_sessions && !life.initialized && !life.finalized && life.sessions == 0 &&
           !is_forked() && owner == getpid();
}

void own_world()
{
    owner = getpid();
    forget_fork();
}

void begin_for_sessions()
{
    if (life.begun)
        return;
    life.by_init_thread = life.is_for_sessions = true;
    life.level = life.provided = MPI_THREAD_MULTIPLE;
    if (call(stock.Init_thread, nullptr, nullptr, life.level, &life.provided) != MPI_SUCCESS)
        fatal("MPI_Session_init: the MPI library cannot be initialized");
    begun();
}

void ready_slowly()
{
    static capsule::Lock lock;
    {
        capsule::Hold hold(lock);
        if (!capsule::is_open())
            load();
    }
    capsule::Refusal why;
    if (!capsule::enter(why))
        fatal("%s", why.text);
}

bool revive_now(void * /*unused*/, capsule::Refusal & /*why*/)
{
    ready_slowly();
    return true;
}

int rank_in(MPI_Comm comm)
{
    int rank = -1;
    call(stock.Comm_rank, real_of(comm), &rank);
    return rank;
}

int peers(MPI_Comm comm)
{
    int is_inter = 0;
    int size = 0;
    call(stock.Comm_test_inter, real_of(comm), &is_inter);
    call(is_inter != 0 ? stock.Comm_remote_size : stock.Comm_size, real_of(comm), &size);
    return size;
}

namespace {

struct Neighbours {
    int sources = 0;
    int targets = 0;
};

Neighbours neighbours(MPI_Comm ours)
{
    MPI_Comm comm = real_of(ours);
    int topology = MPI_UNDEFINED;
    int dimensions = 0;
    int is_weighted = 0;
    Neighbours found;
    call(stock.Topo_test, comm, &topology);
    if (topology == MPI_CART) {
        call(stock.Cartdim_get, comm, &dimensions);
        found = {2 * dimensions, 2 * dimensions};
    } else if (topology == MPI_GRAPH) {
        call(stock.Graph_neighbors_count, comm, rank_in(ours), &found.sources);
        found.targets = found.sources;
    } else if (topology == MPI_DIST_GRAPH) {
        call(stock.Dist_graph_neighbors_count, comm, &found.sources, &found.targets, &is_weighted);
    }
    return found;
}

} // namespace

int sources(MPI_Comm comm)
{
    return neighbours(comm).sources;
}

int targets(MPI_Comm comm)
{
    return neighbours(comm).targets;
}

} // namespace cryo::mpi

using namespace cryo::mpi;
using namespace cryo;
using cryo::capsule::call;

EXPORTED int PMPI_Init(int *argc, char ***argv)
{
    const Inside inside;
    if (is_begun_for_sessions(MPI_THREAD_SINGLE))
        return MPI_SUCCESS;
    return initialized(call(stock.Init, argc, argv));
}
ALIAS(MPI_Init, PMPI_Init)

EXPORTED int PMPI_Init_thread(int *argc, char ***argv, int required, int *provided)
{
    const Inside inside;
    if (is_begun_for_sessions(required)) {
        if (provided != nullptr)
            *provided = required;
        return MPI_SUCCESS;
    }
    int granted = required;
    const int result = call(stock.Init_thread, argc, argv, required, &granted);
    if (provided != nullptr)
        *provided = granted;
    life.by_init_thread = true;
    life.level = required;
    life.provided = granted;
    return initialized(result);
}
ALIAS(MPI_Init_thread, PMPI_Init_thread)

EXPORTED int PMPI_Finalize(void)
{
    finish_copies();
    const Inside inside;
    return finalize();
}
ALIAS(MPI_Finalize, PMPI_Finalize)

EXPORTED int PMPI_Query_thread(int *provided)
{
    const Inside inside;
    if (!life.is_for_sessions || !life.initialized)
        return call(stock.Query_thread, provided);
    *provided = life.granted;
    return MPI_SUCCESS;
}
ALIAS(MPI_Query_thread, PMPI_Query_thread)

// After a restart the library's own main thread is whichever thread of the program has loaded it.
EXPORTED int PMPI_Is_thread_main(int *flag)
{
    const Inside inside;
    if (!life.begun || life.finalized || flag == nullptr)
        return call(stock.Is_thread_main, flag);
    *flag = pthread_equal(pthread_self(), main_thread) != 0 ? 1 : 0;
    return MPI_SUCCESS;
}
ALIAS(MPI_Is_thread_main, PMPI_Is_thread_main)

// Asking does not load the library: tools ask in programs that never call MPI.
EXPORTED int PMPI_Initialized(int *flag)
{
    *flag = life.initialized;
    return MPI_SUCCESS;
}
ALIAS(MPI_Initialized, PMPI_Initialized)

EXPORTED int PMPI_Finalized(int *flag)
{
    *flag = life.finalized;
    return MPI_SUCCESS;
}
ALIAS(MPI_Finalized, PMPI_Finalized)

// A hint for profiling tools; the library itself does nothing.
EXPORTED int PMPI_Pcontrol(const int /*level*/, ...)
{
    return MPI_SUCCESS;
}
ALIAS(MPI_Pcontrol, PMPI_Pcontrol)
