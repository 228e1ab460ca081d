// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/meetings.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/communicators.hpp"
#include "mpi/rank/memory.hpp"
#include "mpi/rank/windows.hpp"
#include "mpi/wrap/fatal.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <algorithm>
#include <atomic>

namespace cryo::mpi {

using capsule::call;

namespace rank {

namespace {

constexpr uint64_t of_meetings = uint64_t{1} << 41; // no world rank

// Both are like MPI_COMM_WORLD.
MPI_Comm meeting_place;
MPI_Comm bridge; // the library's

void build_bridge()
{
    const auto world = static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real);
    MPI_Group all = nullptr;
    call(stock.Comm_group, world, &all);
    // Not MPI_Comm_dup, which would copy the program's attributes.
    const int result = call(stock.Comm_create, world, all, &bridge);
    call(stock.Group_free, &all);
    if (result != MPI_SUCCESS)
        fatal("the MPI library cannot make a communicator like MPI_COMM_WORLD");
    // The error handler of the program's communicator hears of errors.
    call(stock.Comm_set_errhandler, bridge,
         static_cast<MPI_Errhandler>(object_of(MPI_ERRORS_RETURN)->real));
}

// Empty: they are not all in MPI_COMM_WORLD, or it is no group.
WorldRanks members_of(MPI_Group real)
{
    int size = 0;
    MPI_Group copy = nullptr;
    if (bridge == nullptr || call(stock.Group_size, real, &size) != MPI_SUCCESS || size == 0 ||
        call(stock.Group_excl, real, 0, static_cast<const int *>(nullptr), &copy) != MPI_SUCCESS)
        return WorldRanks(&memory());
    WorldRanks members = world_ranks(copy);
    if (std::find(members.begin(), members.end(), MPI_UNDEFINED) != members.end())
        members.clear();
    return members;
}

// The world rank of a communicator's member, or MPI_UNDEFINED.
int world_rank(MPI_Comm real, int member)
{
    MPI_Group all = nullptr;
    MPI_Group one = nullptr;
    int size = 0;
    if (bridge == nullptr || call(stock.Comm_size, real, &size) != MPI_SUCCESS || member < 0 ||
        member >= size || call(stock.Comm_group, real, &all) != MPI_SUCCESS)
        return MPI_UNDEFINED;
    const int result = call(stock.Group_incl, all, 1, static_cast<const int *>(&member), &one);
    call(stock.Group_free, &all);
    return result == MPI_SUCCESS ? world_ranks(one).front() : MPI_UNDEFINED;
}

int own_world_rank()
{
    int self = 0;
    call(stock.Comm_rank, bridge, &self);
    return self;
}

// All others tell the first, who tells them.
void meet(const WorldRanks &members, int tag)
{
    const int self = own_world_rank();
    const int first = members.front();
    if (self != first) {
        PMPI_Send(nullptr, 0, MPI_BYTE, first, tag, meeting_place);
        PMPI_Recv(nullptr, 0, MPI_BYTE, first, tag, meeting_place, MPI_STATUS_IGNORE);
        return;
    }
    for (const int other : members) {
        if (other != self)
            PMPI_Recv(nullptr, 0, MPI_BYTE, other, tag, meeting_place, MPI_STATUS_IGNORE);
    }
    for (const int other : members) {
        if (other != self)
            PMPI_Send(nullptr, 0, MPI_BYTE, other, tag, meeting_place);
    }
}

// The communicator gets the error handler that it would have got, and is counted; the first member
// gives the number.
void count_met(MPI_Comm parent, MPI_Comm made, const WorldRanks &members)
{
    static std::atomic<uint64_t> meetings{0};
    Object *object = object_of(made);
    const auto real = static_cast<MPI_Comm>(object->real);
    MPI_Errhandler handler = nullptr;
    if (call(stock.Comm_get_errhandler, mpi::real_of(parent), &handler) == MPI_SUCCESS) {
        call(stock.Comm_set_errhandler, real, handler);
        call(stock.Errhandler_free, &handler);
    }
    const bookmark::Comm *counters = on ? counted(parent) : nullptr;
    unsigned long id = 0;
    if (counters != nullptr)
        id = bookmark::derive_comm_id(counters->id(), ++meetings,
                                      of_meetings | static_cast<uint64_t>(members.front()));
    call(stock.Bcast, static_cast<void *>(&id), 1,
         static_cast<MPI_Datatype>(object_of(MPI_UNSIGNED_LONG)->real), 0, real);
    if (on && id != 0)
        count(object, id, members, static_cast<uint32_t>(members.size()));
}

int create_group(const WorldRanks &members, MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    Made created(made);
    open_epoch();
    meet(members, tag);
    const int result = done(
        call(stock.Comm_create_group, bridge, mpi::real_of(group), tag, created.place()), created);
    if (result == MPI_SUCCESS)
        count_met(comm, *made, members);
    close_epoch();
    return result == MPI_SUCCESS ? result
                                 : call(stock.Comm_call_errhandler, mpi::real_of(comm), result);
}

// `other`: the world rank of the other leader, where this rank is one.
int create_intercomm(MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag, int other,
                     MPI_Comm *made)
{
    if (other != MPI_UNDEFINED) {
        open_epoch();
        PMPI_Sendrecv(nullptr, 0, MPI_BYTE, other, tag, nullptr, 0, MPI_BYTE, other, tag,
                      meeting_place, MPI_STATUS_IGNORE);
    }
    int result = MPI_SUCCESS;
    {
        Collective turn(comm);
        Made created(made);
        result = call(stock.Intercomm_create, mpi::real_of(comm), leader,
                      other != MPI_UNDEFINED ? bridge : mpi::real_of(peer),
                      other != MPI_UNDEFINED ? other : remote, tag, created.place());
        result = turn.made(done(result, created), made);
    }
    if (other != MPI_UNDEFINED)
        close_epoch();
    return result;
}

} // namespace

void prepare_meetings()
{
    make_companion(MPI_COMM_WORLD, &meeting_place);
    build_bridge();
}

void restore_meetings()
{
    if (bridge != nullptr)
        build_bridge();
}

} // namespace rank

} // namespace cryo::mpi

using namespace cryo;
using namespace cryo::mpi;
using cryo::capsule::call;

EXPORTED int PMPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    const Inside inside;
    const rank::WorldRanks members =
        rank::members_of(group != nullptr ? mpi::real_of(group) : nullptr);
    if (!members.empty())
        return rank::create_group(members, comm, group, tag, made);
    Made created(made);
    const int result = done(call(stock.Comm_create_group, mpi::real_of(comm), mpi::real_of(group),
                                 tag, created.place()),
                            created);
    return rank::uncounted(result, made, "MPI_Comm_create_group");
}
ALIAS(MPI_Comm_create_group, PMPI_Comm_create_group)

EXPORTED int PMPI_Intercomm_create(MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag,
                                   MPI_Comm *made)
{
    const Inside inside;
    int self = MPI_UNDEFINED;
    const bool leads =
        call(stock.Comm_rank, mpi::real_of(comm), &self) == MPI_SUCCESS && self == leader;
    const int other = leads ? rank::world_rank(mpi::real_of(peer), remote) : MPI_UNDEFINED;
    return rank::create_intercomm(comm, leader, peer, remote, tag, other, made);
}
ALIAS(MPI_Intercomm_create, PMPI_Intercomm_create)
