// SPDX-License-Identifier: Apache-2.0
// Creation and release of communicators: their ids, members, and types that messages still need.
#include "mpi/rank/communicators.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/memory.hpp"
#include "mpi/stock/exported.hpp"
#include "mpi/stock/fatal.hpp"

#include <algorithm>
#include <numeric>

namespace cryo::mpi {

using capsule::call;

namespace rank {

WorldRanks world_ranks(MPI_Group group)
{
    MPI_Group world = nullptr;
    int size = 0;
    call(stock.Comm_group, static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real), &world);
    call(stock.Group_size, group, &size);
    WorldRanks here(static_cast<size_t>(size), &memory());
    WorldRanks there(static_cast<size_t>(size), &memory());
    std::iota(here.begin(), here.end(), 0);
    call(stock.Group_translate_ranks, group, size, static_cast<const int *>(here.data()), world,
         there.data());
    call(stock.Group_free, &world);
    call(stock.Group_free, &group);
    return there;
}

bookmark::Comm &count(Object *object, bookmark::CommId id, const WorldRanks &peers,
                      uint32_t members)
{
    const std::pmr::vector<bookmark::WorldRank> world(peers.begin(), peers.end(), &memory());
    const Engine::Busy busy(*engine);
    bookmark::Comm &comm =
        engine->rank().made(id, static_cast<uint32_t>(world.size()), world, members);
    comm.user = object;
    object->traffic = &comm;
    return comm;
}

namespace {

// Both sides of an inter-communicator must compute the same id from different communicators:
// each side sends the other its own proposal.
uint64_t agreed(MPI_Comm real, uint64_t mine)
{
    unsigned long ours = mine;
    unsigned long theirs = 0;
    call(stock.Allreduce, static_cast<const void *>(&ours), static_cast<void *>(&theirs), 1,
         static_cast<MPI_Datatype>(object_of(MPI_UNSIGNED_LONG)->real),
         static_cast<MPI_Op>(object_of(MPI_MAX)->real), real);
    return bookmark::derive_comm_id(std::min(ours, theirs), std::max(ours, theirs), 1);
}

constexpr uint64_t of_copies = uint64_t{1} << 40; // not a world rank

} // namespace

void count_made(Object *object, bookmark::CommId id)
{
    const auto real = static_cast<MPI_Comm>(object->real);
    int is_inter = 0;
    MPI_Group group = nullptr;
    call(stock.Comm_test_inter, real, &is_inter);
    call(stock.Comm_group, real, &group);
    WorldRanks peers = world_ranks(group);
    auto members = static_cast<uint32_t>(peers.size());
    if (is_inter != 0) {
        id = agreed(real, id);
        call(stock.Comm_remote_group, real, &group);
        peers = world_ranks(group);
        members += static_cast<uint32_t>(peers.size());
    }
    count(object, id, peers, members);
}

void count_made(Object *object, bookmark::CommId parent, uint64_t ordinal)
{
    MPI_Group group = nullptr;
    call(stock.Comm_group, static_cast<MPI_Comm>(object->real), &group);
    const WorldRanks members = world_ranks(group);
    count_made(object,
               bookmark::derive_comm_id(parent, ordinal, static_cast<uint64_t>(members.front())));
}

int copied(int result, MPI_Comm comm, uint64_t ordinal, const MPI_Comm *place, MPI_Request *request)
{
    const bookmark::Comm *parent = engine_counts ? counted(comm) : nullptr;
    if (result != MPI_SUCCESS)
        return begun(result, comm);
    if (parent == nullptr || is_null(*request))
        return tracked(result, request);
    WorldRanks peers(parent->peer_count(), &memory());
    for (size_t i = 0; i < peers.size(); i++)
        peers[i] = static_cast<int>(parent->world(static_cast<int>(i)));
    Object *copy = object_of(*place);
    count(copy, bookmark::derive_comm_id(parent->id(), ordinal, of_copies), peers,
          parent->members())
        .user = nullptr;
    tracked(result, request);
    request_of(*request)->copy = copy;
    copies_under_way++;
    return result;
}

int Collective::made(int result, MPI_Comm *place)
{
    if (result == MPI_SUCCESS && comm_ != nullptr && *place != nullptr &&
        object_of(*place) != null_object(Kind::Comm))
        count_made(object_of(*place), comm_->id(), ordinal_);
    return over(result);
}

} // namespace rank

namespace traffic {

using namespace rank;

namespace {

// Does not wait for the other members, as natively. While the library frees the communicator (and
// runs the program's attribute callbacks) no other thread may drain messages from it.
template <class Free>
int free_communicator(Free free, MPI_Comm *comm)
{
    bookmark::Comm *counters = counted(*comm);
    Changed changed(comm);
    if (counters == nullptr)
        return done(call(free, changed.place()), changed);
    {
        const Engine::Busy busy(*engine);
        counters->freed = true;
    }
    const Heard heard;
    const int result = call(free, changed.place());
    {
        const Engine::Busy busy(*engine);
        counters->freed = false;
        if (heard.of(result) == MPI_SUCCESS) {
            object_of(*comm)->traffic = nullptr;
            counters->user = nullptr;
            engine->rank().freed(*counters);
        }
    }
    return done(result, changed);
}

// An object that requests still need is freed when the last of them completes.
template <class Free, class Handle>
int free_unless_pinned(Free free, Handle *handle)
{
    Object *object = handle != nullptr ? object_of(*handle) : nullptr;
    if (object == nullptr || __atomic_load_n(&object->pins, __ATOMIC_RELAXED) == 0) {
        Changed changed(handle);
        return done(call(free, changed.place()), changed);
    }
    object->doomed = true;
    *handle = handle_of<Handle>(null_object(kind_of<Handle>));
    return MPI_SUCCESS;
}

} // namespace

int Comm_free(MPI_Comm *comm)
{
    return free_communicator(stock.Comm_free, comm);
}

int Comm_disconnect(MPI_Comm *comm)
{
    const Collective turn(*comm); // the library waits for the other members
    return free_communicator(stock.Comm_disconnect, comm);
}

int Type_free(MPI_Datatype *type)
{
    return free_unless_pinned(stock.Type_free, type);
}

int Op_free(MPI_Op *operation)
{
    return free_unless_pinned(stock.Op_free, operation);
}

} // namespace traffic

} // namespace cryo::mpi

using namespace cryo;
using namespace cryo::mpi;
using cryo::capsule::call;

namespace {

template <class Copy, class... Info>
int begin_copy(Copy idup, MPI_Comm comm, Info... info, MPI_Comm *copy, MPI_Request *request)
{
    Made made_copy(copy);
    Made made_request(request);
    const uint64_t ordinal = rank::started(comm);
    const int result =
        done(call(idup, mpi::real_of(comm), info..., made_copy.place(), made_request.place()),
             made_copy, made_request);
    return rank::copied(result, comm, ordinal, copy, request);
}

} // namespace

EXPORTED int PMPI_Comm_idup(MPI_Comm comm, MPI_Comm *copy, MPI_Request *request)
{
    const Inside inside;
    return begin_copy(stock.Comm_idup, comm, copy, request);
}
ALIAS(MPI_Comm_idup, PMPI_Comm_idup)

EXPORTED int PMPI_Comm_idup_with_info(MPI_Comm comm, MPI_Info info, MPI_Comm *copy,
                                      MPI_Request *request)
{
    const Inside inside;
    constexpr char name[] = "PMPI_Comm_idup_with_info";
    const auto idup =
        capsule::function<int (*)(MPI_Comm, MPI_Info, MPI_Comm *, MPI_Request *)>(name);
    must_have(idup, name + 1);
    return begin_copy<decltype(idup), MPI_Info>(idup, comm, mpi::real_of(info), copy, request);
}
ALIAS(MPI_Comm_idup_with_info, PMPI_Comm_idup_with_info)
