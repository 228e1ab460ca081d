// SPDX-License-Identifier: Apache-2.0
#include "mpi/rank/heard.hpp"
#include "functions.gen.hpp"

namespace cryo::mpi {

__thread LastError last_error __attribute__((tls_model("initial-exec"))); // see threads.cpp

bool has_no_handler(const Object *object, MPI_Errhandler real)
{
    return abi::world_answers && object->handler != Object::Handler::own &&
           real == static_cast<MPI_Errhandler>(object_of(MPI_ERRORS_ARE_FATAL)->real);
}

bool has_own_handler(Object *object)
{
    using Is = Object::Handler;
    if (!abi::world_answers || object->handler == Is::own)
        return true;
    if (object->handler == Is::unknown) {
        MPI_Errhandler handler = nullptr;
        capsule::call(stock.Comm_get_errhandler, static_cast<MPI_Comm>(object->real), &handler);
        object->handler = has_no_handler(object, handler) ? Is::none : Is::own;
        capsule::call(stock.Errhandler_free, &handler);
    }
    return object->handler == Is::own;
}

MPI_Errhandler QuietWorld::begin()
{
    MPI_Errhandler before = nullptr;
    capsule::call(stock.Comm_get_errhandler, real_of(MPI_COMM_WORLD), &before);
    capsule::call(stock.Comm_set_errhandler, real_of(MPI_COMM_WORLD), real_of(MPI_ERRORS_RETURN));
    return before;
}

void QuietWorld::end(MPI_Errhandler before)
{
    capsule::call(stock.Comm_set_errhandler, real_of(MPI_COMM_WORLD), before);
    capsule::call(stock.Errhandler_free, &before);
}

int tell_error(MPI_Comm comm, int error)
{
    const Heard heard;
    capsule::call(stock.Comm_call_errhandler,
                  real_of(has_own_handler(object_of(comm)) ? comm : MPI_COMM_WORLD), error);
    return heard.returned(error);
}

} // namespace cryo::mpi
