// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/meetings.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/communicators.hpp"
#include "mpi/rank/memory.hpp"
#include "mpi/rank/windows.hpp"
#include "mpi/stock/exported.hpp"
#include "mpi/stock/fatal.hpp"

#include <algorithm>
#include <atomic>

namespace cryo::mpi {

using capsule::call;

namespace rank {

namespace {

constexpr uint64_t of_meetings = uint64_t{1} << 41; // not a world rank

// All of these have the members of MPI_COMM_WORLD.
MPI_Comm meeting_place;
MPI_Comm bridge;       // known to the library only
MPI_Comm plain_bridge; // the same, for communicators without an error handler

MPI_Comm like_world()
{
    MPI_Comm made = nullptr;
    const auto world = static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real);
    MPI_Group all = nullptr;
    call(stock.Comm_group, world, &all);
    // Not MPI_Comm_dup, which would copy the program's attributes.
    const int result = call(stock.Comm_create, world, all, &made);
    call(stock.Group_free, &all);
    if (result != MPI_SUCCESS)
        fatal("the MPI library cannot make a communicator like MPI_COMM_WORLD");
    return made;
}

void build_bridge()
{
    bridge = like_world();
    if constexpr (abi::world_answers)
        plain_bridge = like_world();
    // Errors are reported to the error handler of the program's communicator instead.
    call(stock.Comm_set_errhandler, bridge,
         static_cast<MPI_Errhandler>(object_of(MPI_ERRORS_RETURN)->real));
}

// Empty: a member is outside MPI_COMM_WORLD, or the group is invalid.
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

// All others report to the first, which answers with the id of the communicator to be created.
bookmark::CommId meet(const WorldRanks &members, int tag)
{
    static std::atomic<uint64_t> meetings{0};
    const int self = own_world_rank();
    const int first = members.front();
    unsigned long id = 0;
    if (self != first) {
        PMPI_Send(nullptr, 0, MPI_BYTE, first, tag, meeting_place);
        PMPI_Recv(&id, 1, MPI_UNSIGNED_LONG, first, tag, meeting_place, MPI_STATUS_IGNORE);
        return id;
    }
    if (engine_counts)
        id = bookmark::derive_comm_id(counted(MPI_COMM_WORLD)->id(), ++meetings,
                                      of_meetings | static_cast<uint64_t>(first));
    for (const int other : members) {
        if (other != self)
            PMPI_Recv(nullptr, 0, MPI_BYTE, other, tag, meeting_place, MPI_STATUS_IGNORE);
    }
    for (const int other : members) {
        if (other != self)
            PMPI_Send(&id, 1, MPI_UNSIGNED_LONG, other, tag, meeting_place);
    }
    return id;
}

int create_group(const WorldRanks &members, MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    Made created(made);
    MPI_Errhandler handler = nullptr; // the one the new communicator would inherit
    call(stock.Comm_get_errhandler, mpi::real_of(comm), &handler);
    const bool is_plain = has_no_handler(object_of(comm), handler);
    open_epoch();
    const bookmark::CommId id = meet(members, tag);
    const int result = done(call(stock.Comm_create_group, is_plain ? plain_bridge : bridge,
                                 mpi::real_of(group), tag, created.place()),
                            created);
    if (result == MPI_SUCCESS && created.is_something()) {
        if (!is_plain) {
            call(stock.Comm_set_errhandler, mpi::real_of(*made), handler);
            object_of(*made)->handler = Object::Handler::own;
        }
        if (id != 0)
            count_made(object_of(*made), id);
    }
    close_epoch();
    call(stock.Errhandler_free, &handler);
    return result == MPI_SUCCESS || is_plain ? result : tell_error(comm, result);
}

void meet_leader(int other, int tag)
{
    PMPI_Sendrecv(nullptr, 0, MPI_BYTE, other, tag, nullptr, 0, MPI_BYTE, other, tag, meeting_place,
                  MPI_STATUS_IGNORE);
}

void meet_leader(const WorldRanks &members, int leader, int tag)
{
    if (leader >= 0 && static_cast<size_t>(leader) < members.size())
        meet_leader(members[static_cast<size_t>(leader)], tag);
}

// `other`: the world rank of the other leader, if this rank is a leader.
int create_intercomm(MPI_Comm comm, int leader, MPI_Comm peer, int remote, int tag, int other,
                     MPI_Comm *made)
{
    if (other != MPI_UNDEFINED) {
        open_epoch();
        meet_leader(other, tag);
    }
    int result = MPI_SUCCESS;
    {
        Collective turn(comm);
        Made created(made);
        result = call(stock.Intercomm_create, mpi::real_of(comm), leader,
                      other != MPI_UNDEFINED ? bridge : mpi::real_of(mpi::handle_or_null(peer)),
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

MPI_Comm bridge_of_library()
{
    return bridge;
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
    if (!members.empty() && made != nullptr) // otherwise the library reports the error
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

// Communicators made from groups, without a parent communicator; strings tell them apart.
namespace {

constexpr char create_name[] = "PMPI_Comm_create_from_group";
using Create = int (*)(MPI_Group, const char *, MPI_Info, MPI_Errhandler, MPI_Comm *);

constexpr char inter_name[] = "PMPI_Intercomm_create_from_groups";
using CreateInter = int (*)(MPI_Group, int, MPI_Group, int, const char *, MPI_Info, MPI_Errhandler,
                            MPI_Comm *);

int number_of(const char *text)
{
    uint32_t sum = 2166136261U;
    for (; *text != 0; text++)
        sum = (sum ^ static_cast<unsigned char>(*text)) * 16777619U;
    return static_cast<int>(sum >> 4); // MPICH's highest tag is 2^28 - 1
}

rank::WorldRanks members_of(MPI_Group group)
{
    return rank::members_of(group != nullptr ? real_of(group) : nullptr);
}

} // namespace

EXPORTED int PMPI_Comm_create_from_group(MPI_Group group, const char *tag, MPI_Info info,
                                         MPI_Errhandler handler, MPI_Comm *made)
{
    const Inside inside;
    const auto create = cryo::capsule::function<Create>(create_name);
    must_have(create, create_name + 1);
    const rank::WorldRanks members = members_of(group);
    const bool meet = !members.empty() && tag != nullptr;
    Made created(made);
    rank::open_epoch();
    const bookmark::CommId id = meet ? rank::meet(members, number_of(tag)) : 0;
    const int result =
        done(call(create, real_of(group), tag, real_of(info), real_of(handler), created.place()),
             created);
    if (result == MPI_SUCCESS && id != 0)
        rank::count_made(object_of(*made), id);
    rank::close_epoch();
    return meet ? result : rank::uncounted(result, made, "MPI_Comm_create_from_group");
}
ALIAS(MPI_Comm_create_from_group, PMPI_Comm_create_from_group)

EXPORTED int PMPI_Intercomm_create_from_groups(MPI_Group local, int leader, MPI_Group remote,
                                               int remote_leader, const char *tag, MPI_Info info,
                                               MPI_Errhandler handler, MPI_Comm *made)
{
    const Inside inside;
    const auto create = cryo::capsule::function<CreateInter>(inter_name);
    must_have(create, inter_name + 1);
    const rank::WorldRanks members = members_of(local);
    const bool meet = !members.empty() && tag != nullptr;
    Made created(made);
    rank::open_epoch();
    const bookmark::CommId id = meet ? rank::meet(members, number_of(tag)) : 0;
    const auto own = static_cast<size_t>(leader);
    if (meet && leader >= 0 && own < members.size() && members[own] == rank::own_world_rank())
        rank::meet_leader(members_of(remote), remote_leader, number_of(tag));
    const int result = done(call(create, real_of(local), leader, real_of(remote), remote_leader,
                                 tag, real_of(info), real_of(handler), created.place()),
                            created);
    if (result == MPI_SUCCESS && id != 0)
        rank::count_made(object_of(*made), id);
    rank::close_epoch();
    return meet ? result : rank::uncounted(result, made, "MPI_Intercomm_create_from_groups");
}
ALIAS(MPI_Intercomm_create_from_groups, PMPI_Intercomm_create_from_groups)
