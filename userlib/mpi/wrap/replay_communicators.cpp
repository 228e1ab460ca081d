// SPDX-License-Identifier: Apache-2.0
// Communicators across a restart. The calls that created them are not repeated: some of these had
// more participants than the communicator has members, and these may have forgotten it. Each is
// recreated by its members alone, and all members recreate theirs in the same order.
#include "bookmark/comm.hpp"
#include "mpi/capsule/refuse.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <algorithm>
#include <cstring>

namespace cryo::mpi {

using capsule::call;
using capsule::refuse;

namespace {

constexpr int tag = 0;

int *numbers(Story &story, int count)
{
    return story.notes.make<int>(static_cast<size_t>(count) + 1);
}

bool describe_topology(Story &story, MPI_Comm real, CommNote &note, Why &why)
{
    int result = call(stock.Topo_test, real, &note.topology);
    if (result == MPI_SUCCESS && note.topology == MPI_CART) {
        result = call(stock.Cartdim_get, real, &note.dimensions);
        note.numbers = numbers(story, 3 * note.dimensions);
        if (note.numbers == nullptr)
            return no_memory(why);
        const int d = note.dimensions;
        if (result == MPI_SUCCESS)
            result =
                call(stock.Cart_get, real, d, note.numbers, note.numbers + d, note.numbers + 2 * d);
    } else if (result == MPI_SUCCESS && note.topology == MPI_GRAPH) {
        result = call(stock.Graphdims_get, real, &note.dimensions, &note.edges);
        note.numbers = numbers(story, note.dimensions + note.edges);
        if (note.numbers == nullptr)
            return no_memory(why);
        if (result == MPI_SUCCESS)
            result = call(stock.Graph_get, real, note.dimensions, note.edges, note.numbers,
                          note.numbers + note.dimensions);
    } else if (result == MPI_SUCCESS && note.topology == MPI_DIST_GRAPH) {
        int is_weighted = 0;
        result = call(stock.Dist_graph_neighbors_count, real, &note.dimensions, &note.edges,
                      &is_weighted);
        note.is_weighted = is_weighted != 0;
        const int s = note.dimensions;
        const int t = note.edges;
        note.numbers = numbers(story, 2 * (s + t));
        if (note.numbers == nullptr)
            return no_memory(why);
        int *at = note.numbers;
        int *source_weights = note.is_weighted ? at + s : MPI_UNWEIGHTED;
        int *target_weights = note.is_weighted ? at + 2 * s + t : MPI_UNWEIGHTED;
        if (result == MPI_SUCCESS)
            result = call(stock.Dist_graph_neighbors, real, s, at, source_weights, t, at + 2 * s,
                          target_weights);
    }
    return worked(result, "a communicator's topology", why);
}

bool describe_trimmings(Story &story, MPI_Comm real, CommNote &note, MPI_Errhandler handler,
                        Why &why)
{
    char name[MPI_MAX_OBJECT_NAME + 1] = "";
    int length = 0;
    MPI_Info info = nullptr;
    call(stock.Comm_get_name, real, name, &length);
    if (name[0] != 0)
        note.trimmings.name = story.notes.text(name);
    if (!describe_handler(story, handler, note.trimmings.handler, why))
        return false;
    if (call(stock.Comm_get_info, real, &info) == MPI_SUCCESS && info != nullptr) {
        const bool done = describe_info(story, info, note.trimmings.info, why);
        call(stock.Info_free, &info);
        if (!done)
            return false;
    }
    return describe_attributes(story, note.object, note.trimmings.attributes, why);
}

bool describe_members(Story &story, MPI_Comm real, CommNote &note, Why &why)
{
    int is_inter = 0;
    MPI_Group group = nullptr;
    if (!worked(call(stock.Comm_test_inter, real, &is_inter), "a communicator", why) ||
        !worked(call(stock.Comm_group, real, &group), "a communicator's group", why))
        return false;
    bool done = describe_ranks(story, group, note.ranks, why);
    call(stock.Group_free, &group);
    note.is_inter = is_inter != 0;
    if (!done || !note.is_inter)
        return done;
    if (!worked(call(stock.Comm_remote_group, real, &group), "a communicator's group", why))
        return false;
    done = describe_ranks(story, group, note.remote, why);
    call(stock.Group_free, &group);
    return done;
}

// Communicators with different members are ordered by their marks; those with the same members by
// the rank engine's id, which is the same at all members, or else in the order of their creation,
// which may differ between members if several threads create communicators.
bool comes_before(const CommNote *a, const CommNote *b)
{
    const uint64_t mark_a = mark_of(a->ranks, a->remote);
    const uint64_t mark_b = mark_of(b->ranks, b->remote);
    if (mark_a != mark_b)
        return mark_a < mark_b;
    const auto *counted_a = static_cast<const bookmark::Comm *>(a->object->traffic);
    const auto *counted_b = static_cast<const bookmark::Comm *>(b->object->traffic);
    if (counted_a != nullptr && counted_b != nullptr)
        return counted_a->id() < counted_b->id();
    return a->object->made < b->object->made;
}

int add_topology(const CommNote &note, MPI_Comm plain, MPI_Comm *made)
{
    const int *at = note.numbers;
    const int s = note.dimensions;
    const int t = note.edges;
    constexpr int reorder = 0;
    if (note.topology == MPI_CART)
        return call(stock.Cart_create, plain, s, at, at + s, reorder, made);
    if (note.topology == MPI_GRAPH)
        return call(stock.Graph_create, plain, s, at, at + s, reorder, made);
    const int *none_weights = MPI_UNWEIGHTED;
    const int *source_weights = note.is_weighted ? at + s : abi::real_weights(none_weights);
    const int *target_weights = note.is_weighted ? at + 2 * s + t : abi::real_weights(none_weights);
    auto none = static_cast<MPI_Info>(object_of(MPI_INFO_NULL)->real);
    return call(stock.Dist_graph_create_adjacent, plain, s, at, source_weights, t, at + 2 * s,
                target_weights, none, reorder, made);
}

bool remake(const Story &story, const CommNote &note, Why &why)
{
    MPI_Comm plain = communicator_of(story, note.ranks);
    if (plain == nullptr)
        return refuse(why, "a communicator of %d processes cannot be made again", note.ranks.count);
    MPI_Comm made = plain;
    int result = MPI_SUCCESS;
    if (note.is_inter) {
        auto world = static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real);
        result = call(stock.Intercomm_create, plain, 0, world, note.remote.world[0], tag, &made);
    } else if (note.topology != MPI_UNDEFINED) {
        result = add_topology(note, plain, &made);
    }
    if (made != plain && result == MPI_SUCCESS)
        call(stock.Comm_free, &plain);
    if (!worked(result, "making a communicator again", why))
        return false;
    bind_object(note.object, made);
    return true;
}

bool trim(const CommNote &note, Why &why)
{
    auto real = static_cast<MPI_Comm>(note.object->real);
    const Trimmings &trimmings = note.trimmings;
    if (trimmings.name != nullptr)
        call(stock.Comm_set_name, real, trimmings.name);
    if (trimmings.info != nullptr && trimmings.info->count > 0)
        call(stock.Comm_set_info, real, static_cast<MPI_Info>(trimmings.info->real));
    if (!replay_attributes(note.object, trimmings.attributes, why))
        return false;
    auto handler = static_cast<MPI_Errhandler>(trimmings.handler->real);
    if (has_no_handler(note.object, handler))
        return true;
    return worked(call(stock.Comm_set_errhandler, real, handler),
                  "giving a communicator its error handler again", why);
}

} // namespace

uint64_t mark_of(const Ranks &ranks, const Ranks &remote)
{
    const Ranks *first = &ranks;
    const Ranks *second = &remote;
    if (remote.count > 0 && remote.world[0] < ranks.world[0])
        std::swap(first, second);
    uint64_t sum = 14695981039346656037U;
    const auto mix = [&sum](const Ranks &some) {
        for (int i = 0; i < some.count; i++)
            sum = (sum ^ static_cast<uint64_t>(some.world[i])) * 1099511628211U;
        sum = (sum ^ 0xffffffffU) * 1099511628211U;
    };
    mix(*first);
    mix(*second);
    return sum;
}

MPI_Comm communicator_of(const Story &story, const Ranks &ranks)
{
    MPI_Comm made = nullptr;
    MPI_Group group = group_of(story, ranks);
    if (group == nullptr)
        return nullptr;
    auto world = static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real);
    const int result = call(stock.Comm_create_group, world, group, tag, &made);
    call(stock.Group_free, &group);
    return result == MPI_SUCCESS ? made : nullptr;
}

bool describe_communicator(Story &story, Object *object, bool is_predefined, Why &why)
{
    auto real = static_cast<MPI_Comm>(object->real);
    auto *note = story.notes.make<CommNote>();
    if (note == nullptr)
        return no_memory(why);
    note->object = object;
    note->is_predefined = is_predefined;
    ErrorsReturn quiet(object);
    if (!is_predefined &&
        (!describe_members(story, real, *note, why) || !describe_topology(story, real, *note, why)))
        return false;
    story.comms.add(note);
    return describe_trimmings(story, real, *note, quiet.before(), why);
}

bool replay_communicators(Story &story, Why &why)
{
    size_t count = 0;
    for (CommNote *note = story.comms.first(); note != nullptr; note = note->next)
        count++;
    auto **all = story.notes.make<CommNote *>(count + 1);
    if (all == nullptr)
        return no_memory(why);
    count = 0;
    for (CommNote *note = story.comms.first(); note != nullptr; note = note->next) {
        if (!note->is_predefined)
            all[count++] = note;
    }
    std::sort(all, all + count, comes_before);
    for (size_t i = 0; i < count; i++) {
        if (!remake(story, *all[i], why))
            return false;
    }
    for (CommNote *note = story.comms.first(); note != nullptr; note = note->next) {
        if (!trim(*note, why))
            return false;
    }
    return true;
}

} // namespace cryo::mpi
