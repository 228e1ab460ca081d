// SPDX-License-Identifier: Apache-2.0
// Generalized requests and data representations: callbacks with user data.
#include "mpi/wrap/callback.hpp"
#include "mpi/wrap/told.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstring>

namespace cryo::mpi {

namespace {

using capsule::call;
using capsule::call_home;

// Callbacks in Fortran: extra_state is the address of a variable, and the error comes last.
using FortranQuery = void(void *, MPI_Fint *, MPI_Fint *);
using FortranFree = void(void *, MPI_Fint *);
using FortranCancel = void(void *, MPI_Fint *, MPI_Fint *);

bool is_c(const Generalized *ours)
{
    return ours->request == nullptr || ours->request->callbacks_are_c;
}

template <class To, class From>
To *as(From *function)
{
    return reinterpret_cast<To *>(reinterpret_cast<void *>(function));
}

int query_request(void *data, MPI_Status *status)
{
    const auto *ours = static_cast<Generalized *>(data);
    if (is_c(ours))
        return call_home(ours->query, ours->extra_state, status);
    MPI_Fint error = MPI_SUCCESS;
    call_home(as<FortranQuery>(ours->query), ours->extra_state,
              reinterpret_cast<MPI_Fint *>(status), &error);
    return error;
}

int free_request(void *data)
{
    const Generalized ours = *static_cast<Generalized *>(data);
    forget_generalized(static_cast<Generalized *>(data));
    capsule::unkeep(data, sizeof(ours));
    if (is_c(&ours))
        return call_home(ours.free, ours.extra_state);
    MPI_Fint error = MPI_SUCCESS;
    call_home(as<FortranFree>(ours.free), ours.extra_state, &error);
    return error;
}

int cancel_request(void *data, int complete)
{
    const auto *ours = static_cast<Generalized *>(data);
    if (is_c(ours))
        return call_home(ours->cancel, ours->extra_state, complete);
    MPI_Fint error = MPI_SUCCESS;
    MPI_Fint flag = complete;
    call_home(as<FortranCancel>(ours->cancel), ours->extra_state, &flag, &error);
    return error;
}

int read_items(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
               void *data)
{
    const auto *ours = static_cast<Representation *>(data);
    const Shown shown(type);
    return call_home(ours->read, user, shown.as<MPI_Datatype>(), count, file, position,
                     ours->extra_state);
}

int write_items(void *user, MPI_Datatype type, int count, void *file, MPI_Offset position,
                void *data)
{
    const auto *ours = static_cast<Representation *>(data);
    const Shown shown(type);
    return call_home(ours->write, user, shown.as<MPI_Datatype>(), count, file, position,
                     ours->extra_state);
}

int extent_of_item(MPI_Datatype type, MPI_Aint *extent, void *data)
{
    const auto *ours = static_cast<Representation *>(data);
    const Shown shown(type);
    return call_home(ours->extent, shown.as<MPI_Datatype>(), extent, ours->extra_state);
}

} // namespace

int start_generalized(Generalized *record, MPI_Request *real)
{
    return call(stock.Grequest_start, query_request, free_request, cancel_request,
                static_cast<void *>(record), real);
}

int register_representation(Representation *record)
{
    return call(stock.Register_datarep, record->name,
                record->read != nullptr ? read_items : nullptr,
                record->write != nullptr ? write_items : nullptr, extent_of_item,
                static_cast<void *>(record));
}

} // namespace cryo::mpi

using namespace cryo::mpi;

EXPORTED int PMPI_Grequest_start(MPI_Grequest_query_function *query,
                                 MPI_Grequest_free_function *release,
                                 MPI_Grequest_cancel_function *cancel, void *extra_state,
                                 MPI_Request *request)
{
    const Inside inside;
    auto *record = static_cast<Generalized *>(cryo::capsule::keep(sizeof(Generalized)));
    *record = {nullptr, query, release, cancel, extra_state, nullptr, nullptr, false};
    Made made(request);
    const int result = done(start_generalized(record, made.place()), made);
    if (result != MPI_SUCCESS)
        return result;
    record->request = made.object();
    record->real = record->request->real;
    remember_generalized(record);
    return rank::tracked(result, request, rank::Use::unknown);
}
ALIAS(MPI_Grequest_start, PMPI_Grequest_start)

EXPORTED int PMPI_Register_datarep(const char *name, MPI_Datarep_conversion_function *read,
                                   MPI_Datarep_conversion_function *write,
                                   MPI_Datarep_extent_function *extent, void *extra_state)
{
    const Inside inside;
    auto *record = static_cast<Representation *>(make_record(sizeof(Representation)));
    const size_t bytes = strlen(name) + 1;
    auto *kept = static_cast<char *>(make_record(bytes));
    memcpy(kept, name, bytes);
    *record = {kept, read, write, extent, extra_state};
    const int result = register_representation(record);
    if (result == MPI_SUCCESS)
        remember_representation(record);
    return result;
}
ALIAS(MPI_Register_datarep, PMPI_Register_datarep)

// A status in Fortran consists of the same six words.
EXPORTED int PMPI_Status_c2f(const MPI_Status *status, MPI_Fint *words)
{
    if (status == MPI_STATUS_IGNORE || status == MPI_STATUSES_IGNORE)
        return MPI_ERR_IN_STATUS;
    memcpy(words, status, sizeof(*status));
    return MPI_SUCCESS;
}
ALIAS(MPI_Status_c2f, PMPI_Status_c2f)

EXPORTED int PMPI_Status_f2c(const MPI_Fint *words, MPI_Status *status)
{
    if (words == MPI_F_STATUS_IGNORE || words == MPI_F_STATUSES_IGNORE)
        return MPI_ERR_IN_STATUS;
    memcpy(status, words, sizeof(*status));
    return MPI_SUCCESS;
}
ALIAS(MPI_Status_f2c, PMPI_Status_f2c)
