// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/told.hpp"
#include "mpi/capsule/lock.hpp"
#include "mpi/capsule/refuse.hpp"
#include "mpi/wrap/callback.hpp"
#include "mpi/wrap/replay_kinds.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstring>

namespace cryo::mpi {

using capsule::call;
using capsule::Hold;
using capsule::refuse;

namespace {

struct Told {
    enum What : uint8_t { error_class, error_code, error_string, representation };
    Told *next;
    What what;
    int number; // the library's answer, or the code of a string
    int of_class;
    const char *text;
    Representation *record;
};

capsule::Lock lock;
Told *first;
Told **last = &first; // in the order of the calls
Generalized *generalized;

struct {
    void *base;
    int size;
} buffer;

void remember(const Told &told)
{
    auto *place = static_cast<Told *>(make_record(sizeof(Told)));
    *place = told;
    const Hold hold(lock);
    *last = place;
    last = &place->next;
}

bool tell(const Told &told, Why &why)
{
    int number = told.number;
    int result = MPI_SUCCESS;
    switch (told.what) {
    case Told::error_class:
        result = call(stock.Add_error_class, &number);
        break;
    case Told::error_code:
        result = call(stock.Add_error_code, told.of_class, &number);
        break;
    case Told::error_string:
        result = call(stock.Add_error_string, number, told.text);
        break;
    case Told::representation:
        result = register_representation(told.record);
        break;
    }
    if (number != told.number)
        return refuse(why,
                      "the MPI library here gives the program's error %d the number %d; "
                      "restart it with the library that it had",
                      told.number, number);
    return worked(result, "telling the MPI library of an error or data representation again", why);
}

} // namespace

void remember_generalized(Generalized *record)
{
    const Hold hold(lock);
    record->next = generalized;
    generalized = record;
}

void forget_generalized(const Generalized *record)
{
    const Hold hold(lock);
    for (Generalized **at = &generalized; *at != nullptr; at = &(*at)->next) {
        if (*at == record) {
            *at = record->next;
            return;
        }
    }
}

void remember_representation(Representation *record)
{
    remember({nullptr, Told::representation, 0, 0, nullptr, record});
}

bool tell_again(Why &why)
{
    for (const Told *told = first; told != nullptr; told = told->next) {
        if (!tell(*told, why))
            return false;
    }
    if (buffer.base != nullptr && !worked(call(stock.Buffer_attach, buffer.base, buffer.size),
                                          "attaching a buffer again", why))
        return false;
    for (Generalized *one = generalized; one != nullptr; one = one->next) {
        if (one->request->real != one->real)
            continue; // the program has freed its handle: nothing can wait for it
        MPI_Request real = nullptr;
        if (!worked(start_generalized(one, &real), "a generalized request", why))
            return false;
        one->request->real = one->real = real;
        if (one->complete)
            call(stock.Grequest_complete, real);
    }
    return true;
}

} // namespace cryo::mpi

using namespace cryo::mpi;
using cryo::capsule::call;

EXPORTED int PMPI_Add_error_class(int *number)
{
    const Inside inside;
    const int result = call(stock.Add_error_class, number);
    if (result == MPI_SUCCESS)
        remember({nullptr, Told::error_class, *number, 0, nullptr, nullptr});
    return result;
}
ALIAS(MPI_Add_error_class, PMPI_Add_error_class)

EXPORTED int PMPI_Add_error_code(int of_class, int *number)
{
    const Inside inside;
    const int result = call(stock.Add_error_code, of_class, number);
    if (result == MPI_SUCCESS)
        remember({nullptr, Told::error_code, *number, of_class, nullptr, nullptr});
    return result;
}
ALIAS(MPI_Add_error_code, PMPI_Add_error_code)

EXPORTED int PMPI_Add_error_string(int number, const char *text)
{
    const Inside inside;
    const int result = call(stock.Add_error_string, number, text);
    if (result == MPI_SUCCESS) {
        const size_t bytes = strlen(text) + 1;
        auto *copy = static_cast<char *>(make_record(bytes));
        memcpy(copy, text, bytes);
        remember({nullptr, Told::error_string, number, 0, copy, nullptr});
    }
    return result;
}
ALIAS(MPI_Add_error_string, PMPI_Add_error_string)

EXPORTED int PMPI_Buffer_attach(void *base, int size)
{
    const Inside inside;
    const int result = call(stock.Buffer_attach, base, size);
    if (result == MPI_SUCCESS)
        buffer = {base, size};
    return result;
}
ALIAS(MPI_Buffer_attach, PMPI_Buffer_attach)

EXPORTED int PMPI_Buffer_detach(void *base, int *size)
{
    const Inside inside;
    const int result = call(stock.Buffer_detach, base, size);
    if (result == MPI_SUCCESS)
        buffer = {};
    return result;
}
ALIAS(MPI_Buffer_detach, PMPI_Buffer_detach)

EXPORTED int PMPI_Grequest_complete(MPI_Request request)
{
    const Inside inside;
    Object *object = request != nullptr ? object_of(request) : nullptr;
    {
        const Hold hold(lock);
        for (Generalized *one = generalized; one != nullptr; one = one->next) {
            if (one->request == object)
                one->complete = true;
        }
    }
    return call(stock.Grequest_complete, real_of(request));
}
ALIAS(MPI_Grequest_complete, PMPI_Grequest_complete)
