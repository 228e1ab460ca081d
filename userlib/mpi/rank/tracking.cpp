// SPDX-License-Identifier: Apache-2.0
// The wrappers' reports to the engine: collectives and requests, and the objects that these need.
#include "functions.gen.hpp"
#include "mpi/rank/engine.hpp"

#include <climits>
#include <utility>

namespace cryo::mpi::rank {

using capsule::call;

uint64_t bytes_of(int count, MPI_Datatype type)
{
    if (type == nullptr || count == 0) // MPICH accepts any type for no elements, even null
        return 0;
    Object *object = object_of(type);
    auto known = reinterpret_cast<uint64_t>(object->traffic);
    if (__builtin_expect(known == 0, 0)) {
        MPI_Count size = 0;
        if (object != null_object(Kind::Datatype) &&
            !is_no_object(object)) // an error is left to the call itself
            call(stock.Type_size_x, static_cast<MPI_Datatype>(object->real), &size);
        known = size > 0 ? static_cast<uint64_t>(size) + 1 : 1;
        object->traffic = reinterpret_cast<void *>(known);
    }
    return static_cast<uint64_t>(count) * (known - 1);
}

Span span_beyond_packing(const void *buffer, int count, MPI_Datatype type)
{
    Span span;
    MPI_Aint bound = 0;
    MPI_Aint extent = 0;
    MPI_Aint bytes = 0;
    if (buffer == MPI_BOTTOM || count <= 0 || bytes_of(count, type) <= INT_MAX)
        return span;
    call(stock.Type_get_extent, mpi::real_of(type), &bound, &extent);
    call(stock.Type_get_true_extent, mpi::real_of(type), &span.lower, &bytes);
    if (extent >= 0)
        span.bytes = static_cast<size_t>(bytes + (count - 1) * extent);
    return span;
}

void Collective::enter(bookmark::Comm *comm)
{
    if (comm == nullptr)
        return; // the library will report the error
    comm_ = comm;
    const Engine::Busy busy(*engine);
    engine->rank().collectives().enter(*comm);
    ordinal_ = comm->clock;
}

void Collective::leave()
{
    engine->rank().collectives().leave();
}

uint64_t start(bookmark::Comm *comm)
{
    if (comm == nullptr)
        return 0;
    const Engine::Busy busy(*engine);
    engine->rank().collectives().start(*comm);
    return comm->clock;
}

namespace {

// Other errors may come from a collective that has begun: a truncated message, a dead process.
bool is_of_arguments(int error)
{
    int what = MPI_ERR_UNKNOWN;
    call(stock.Error_class, error, &what);
    switch (what) {
    case MPI_ERR_ARG:
    case MPI_ERR_ASSERT:
    case MPI_ERR_BUFFER:
    case MPI_ERR_COMM:
    case MPI_ERR_COUNT:
    case MPI_ERR_DIMS:
    case MPI_ERR_GROUP:
    case MPI_ERR_INFO:
    case MPI_ERR_OP:
    case MPI_ERR_RANK:
    case MPI_ERR_RMA_SYNC:
    case MPI_ERR_ROOT:
    case MPI_ERR_TOPOLOGY:
    case MPI_ERR_TYPE:
        return true;
    default:
        return false;
    }
}

} // namespace

void failed(bookmark::Comm &comm, int error)
{
    if (!is_of_arguments(error))
        return;
    const Engine::Busy busy(*engine);
    engine->rank().collectives().refused(comm);
}

int track(int result, MPI_Request *place, Use use, const Object *queue)
{
    if (result != MPI_SUCCESS || is_null(*place))
        return result;
    Request &r = *begin_record<Request>(object_of(*place));
    r.use = use;
    r.queue = queue;
    r.active = true;
    if (use == Use::other || use == Use::file) {
        const Guard guard;
        engine->mpi().under_way.add(r);
    }
    return result;
}

int track_persistent(int result, MPI_Request *place)
{
    if (result != MPI_SUCCESS || is_null(*place))
        return result;
    Request &r = *begin_record<Request>(object_of(*place));
    r.use = Use::other;
    r.persistent = true;
    return result;
}

void pin(Object *object)
{
    if (object != nullptr && !is_predefined(object))
        __atomic_add_fetch(&object->pins, 1, __ATOMIC_RELAXED);
}

void unpin(Object *object)
{
    if (object == nullptr || is_predefined(object) ||
        __atomic_sub_fetch(&object->pins, 1, __ATOMIC_RELAXED) > 0 || !object->doomed)
        return;
    auto type = static_cast<MPI_Datatype>(object->real);
    auto operation = static_cast<MPI_Op>(object->real);
    if (object->kind == Kind::Op)
        call(stock.Op_free, &operation);
    else
        call(stock.Type_free, &type);
    drop_object(object);
}

void pin(Request &request, MPI_Datatype type)
{
    request.datatype = object_of(type);
    pin(request.datatype);
}

void unpin(Request &request)
{
    unpin(std::exchange(request.datatype, nullptr));
}

} // namespace cryo::mpi::rank
