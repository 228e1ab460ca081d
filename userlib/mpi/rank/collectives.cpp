// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/collectives.hpp"
#include "functions.gen.hpp"
#include "mpi/capsule/refuse.hpp"
#include "mpi/rank/communicators.hpp"
#include "mpi/rank/memory.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

namespace cryo::mpi::rank {

using capsule::call;
using capsule::refuse;

namespace {

constexpr uint64_t of_persistent = uint64_t{1} << 42; // not a world rank

Maker *makers; // guarded by Engine::Busy

// The datatypes in the arrays that the library reads at each start: the program's handles follow
// the library's there.
template <class Each>
void for_kept(Object *request, const Each &each)
{
    for (size_t slot = 0; slot < 2; slot++) {
        const auto *kept = static_cast<const MPI_Datatype *>(request->kept[slot]);
        const size_t count = request->kept_bytes[slot] / sizeof(MPI_Datatype);
        for (size_t i = count / 2; kept != nullptr && i < count; i++)
            each(object_of(kept[i]));
    }
}

const bookmark::Comm &clock_of(const Maker &maker)
{
    return *record_in<Request>(maker.request)->comm;
}

// Gives the same order at all members.
bool comes_before(const Maker *a, const Maker *b)
{
    return clock_of(*a).id() < clock_of(*b).id();
}

using Ids = std::pmr::vector<unsigned long>;

// The ids at all ranks, sorted. A collective that a member has freed can never be started again.
Ids gather_ids(const std::pmr::vector<Maker *> &makers_here)
{
    const auto world = static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real);
    const auto number = static_cast<MPI_Datatype>(object_of(MPI_INT)->real);
    const auto id = static_cast<MPI_Datatype>(object_of(MPI_UNSIGNED_LONG)->real);
    int ranks = 0;
    call(stock.Comm_size, world, &ranks);
    Ids here(&memory());
    for (const Maker *maker : makers_here)
        here.push_back(clock_of(*maker).id());
    const auto count = static_cast<int>(here.size());
    std::pmr::vector<int> counts(static_cast<size_t>(ranks), &memory());
    std::pmr::vector<int> places(static_cast<size_t>(ranks), &memory());
    call(stock.Allgather, static_cast<const void *>(&count), 1, number,
         static_cast<void *>(counts.data()), 1, number, world);
    std::exclusive_scan(counts.begin(), counts.end(), places.begin(), 0);
    Ids all(static_cast<size_t>(places.back() + counts.back()), &memory());
    if (!all.empty())
        call(stock.Allgatherv, static_cast<const void *>(here.data()), count, id,
             static_cast<void *>(all.data()), static_cast<const int *>(counts.data()),
             static_cast<const int *>(places.data()), id, world);
    std::sort(all.begin(), all.end());
    return all;
}

} // namespace

void *maker_memory(size_t bytes)
{
    return memory().allocate(bytes);
}

void describe(Object *object, Maker &maker, uint64_t ordinal)
{
    Request &request = *begin_record<Request>(object);
    request.use = Use::other;
    request.persistent = true;
    maker.request = object;
    for (Object *needed : maker.needed)
        pin(needed);
    for_kept(object, [](Object *needed) { pin(needed); });
    const Engine::Busy busy(*engine);
    maker.next = makers;
    makers = &maker;
    bookmark::Comm *parent = maker.parent;
    if (parent == nullptr)
        return; // the rank cannot be saved any more
    std::pmr::vector<bookmark::WorldRank> peers(parent->peer_count(), &memory());
    for (size_t i = 0; i < peers.size(); i++)
        peers[i] = parent->world(static_cast<int>(i));
    parent->requests++;
    refer(request,
          &engine->rank().made(bookmark::derive_comm_id(parent->id(), ordinal, of_persistent),
                               static_cast<uint32_t>(peers.size()), peers, parent->members()));
}

void forget_collective(Request &request)
{
    Object *object = object_of_record(&request);
    Maker *maker = nullptr;
    {
        const Engine::Busy busy(*engine);
        Maker **at = &makers;
        while (*at != nullptr && (*at)->request != object)
            at = &(*at)->next;
        maker = *at;
        if (maker != nullptr)
            *at = maker->next;
        bookmark::Comm *clock = request.comm;
        refer(request, nullptr);
        if (clock != nullptr)
            engine->rank().dropped(*clock);
        if (maker != nullptr && maker->parent != nullptr)
            maker->parent->requests--;
    }
    if (object->real != nullptr && object->real != real_null_request())
        call(stock.Request_free, real_place(request));
    if (maker == nullptr)
        return; // a message's, which is the library's (track_persistent)
    for (Object *needed : maker->needed)
        unpin(needed);
    for_kept(object, [](Object *needed) { unpin(needed); });
    memory().deallocate(maker, maker->bytes());
}

bool may_make_collectives_again(capsule::Refusal &why)
{
    for (const Maker *maker = makers; maker != nullptr; maker = maker->next) {
        if (maker->parent == nullptr || maker->parent->user != maker->comm)
            return refuse(why, "a persistent collective whose communicator was freed");
    }
    return true;
}

bool make_collectives_again(capsule::Refusal &why)
{
    if (!engine_counts)
        return true;
    std::pmr::vector<Maker *> all(&memory());
    for (Maker *maker = makers; maker != nullptr; maker = maker->next)
        all.push_back(maker);
    std::sort(all.begin(), all.end(), comes_before);
    const Ids everywhere = gather_ids(all);
    for (const Maker *maker : all) {
        const bookmark::Comm &clock = clock_of(*maker);
        const auto found = std::equal_range(everywhere.begin(), everywhere.end(), clock.id());
        MPI_Request real = real_null_request();
        const int result = found.second - found.first == clock.members()
                               ? maker->make(maker->request, &real)
                               : MPI_SUCCESS;
        if (result != MPI_SUCCESS)
            return refuse(why, "a persistent collective cannot be made again: error %d", result);
        *real_place(*record_in<Request>(maker->request)) = real;
    }
    return true;
}

} // namespace cryo::mpi::rank
