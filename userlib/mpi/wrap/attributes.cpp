// SPDX-License-Identifier: Apache-2.0
// Attributes: keyvals with callbacks, and the predefined ones, whose values lie in the capsule.
#include "mpi/wrap/attributes.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/callback.hpp"
#include "mpi/wrap/fortran.hpp"
#include "mpi/wrap/fortran_values.hpp"
#include "mpi/wrap/keyvals.hpp"
#include "mpi/wrap/windows.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstdint>

namespace cryo::mpi {

namespace {

using capsule::call;
using capsule::call_home;

// The record that the stock library passes back as extra_state. Lives as long as the process:
// attributes with this keyval may outlive the keyval.
template <class Copy, class Delete>
struct Keyval {
    Copy *copy;
    Delete *remove;
    void *extra_state;
    KeyvalProxies proxies;
};

// The integer handle, for a library whose handles are integers.
template <class Handle>
int number_of(Handle handle)
{
    if constexpr (std::is_pointer_v<Handle>)
        return 0;
    else
        return static_cast<int>(handle);
}

// A function in Fortran gets the number itself as the attribute.
void *in_words(void *value)
{
    const FortranValue *number = fortran_value(value);
    return number != nullptr ? reinterpret_cast<void *>(number->number) : pointer_of_c(value);
}

// Fixes up the copy that the program's function has made: for an attribute that was set in Fortran
// it is a number again, in a record of its own, unless a function in C has returned something else.
int keep_copied(FortranValue *from, bool in_fortran, void **copy)
{
    if (from == nullptr || (!in_fortran && *copy != from)) {
        *copy = word_of_c(*copy);
        return MPI_SUCCESS;
    }
    FortranValue *made =
        make_fortran_value(in_fortran ? reinterpret_cast<intptr_t>(*copy) : from->number);
    *copy = made;
    return made != nullptr ? MPI_SUCCESS : MPI_ERR_NO_MEM;
}

// Open MPI's C++ library reads a communicator's kind from its object.
template <class Handle>
Handle to_show(const Shown &shown)
{
    if constexpr (kind_of<Handle> == Kind::Comm)
        mirror_communicator(shown.object());
    return shown.as<Handle>();
}

// Called by the stock library, in the capsule.
template <class Handle, class Copy, class Delete>
int copy_attribute(Handle from, int keyval, void *extra, void *value, void *copy, int *flag)
{
    const auto *ours = static_cast<Keyval<Copy, Delete> *>(extra);
    auto **copied = static_cast<void **>(copy);
    if (ours->copy == nullptr) { // one of MPICH's predefined functions
        *flag = 0;
        return MPI_SUCCESS;
    }
    const Shown shown(from);
    FortranValue *number = fortran_value(value);
    const bool by_proxy = ours->proxies.copy != nullptr;
    int result = MPI_SUCCESS;
    if (by_proxy)
        result =
            call_home(ours->proxies.copy, reinterpret_cast<void *>(ours->copy),
                      number_of(shown.as<Handle>()), keyval, ours->extra_state,
                      KeyvalProxies::type_of(number != nullptr), in_words(value), copied, flag);
    else
        result = call_home(ours->copy, to_show<Handle>(shown), keyval, ours->extra_state,
                           pointer_of_c(value), copy, flag);
    return result == MPI_SUCCESS && *flag != 0 ? keep_copied(number, by_proxy, copied) : result;
}

template <class Handle, class Copy, class Delete>
int delete_attribute(Handle from, int keyval, void *value, void *extra)
{
    const auto *ours = static_cast<Keyval<Copy, Delete> *>(extra);
    const Shown shown(from);
    FortranValue *number = fortran_value(value);
    int result = MPI_SUCCESS;
    if (ours->remove != nullptr && ours->proxies.remove != nullptr)
        result = call_home(ours->proxies.remove, reinterpret_cast<void *>(ours->remove),
                           number_of(shown.as<Handle>()), keyval,
                           KeyvalProxies::type_of(number != nullptr), in_words(value),
                           ours->extra_state);
    else if (ours->remove != nullptr)
        result = call_home(ours->remove, to_show<Handle>(shown), keyval, pointer_of_c(value),
                           ours->extra_state);
    if (number != nullptr && result == MPI_SUCCESS)
        drop_fortran_value(number);
    return result;
}

template <class Handle>
int get_attribute(Object *object, int keyval, void **value, int *flag)
{
    auto real = static_cast<Handle>(object->real);
    if constexpr (kind_of<Handle> == Kind::Comm)
        return call(stock.Comm_get_attr, real, keyval, static_cast<void *>(value), flag);
    else if constexpr (kind_of<Handle> == Kind::Datatype)
        return call(stock.Type_get_attr, real, keyval, static_cast<void *>(value), flag);
    else
        return call(stock.Win_get_attr, real, keyval, static_cast<void *>(value), flag);
}

template <class Handle>
int set_attribute(Object *object, int keyval, void *value)
{
    auto real = static_cast<Handle>(object->real);
    if constexpr (kind_of<Handle> == Kind::Comm)
        return call(stock.Comm_set_attr, real, keyval, value);
    else if constexpr (kind_of<Handle> == Kind::Datatype)
        return call(stock.Type_set_attr, real, keyval, value);
    else
        return call(stock.Win_set_attr, real, keyval, value);
}

// Called after a restart.
template <class Handle, class Copy, class Delete>
int recreate_keyval(const KeyvalOrigin &origin, int *keyval)
{
    auto *copy = copy_attribute<Handle, Copy, Delete>;
    auto *remove = delete_attribute<Handle, Copy, Delete>;
    if constexpr (kind_of<Handle> == Kind::Comm)
        return call(stock.Comm_create_keyval, copy, remove, keyval, origin.record);
    else if constexpr (kind_of<Handle> == Kind::Datatype)
        return call(stock.Type_create_keyval, copy, remove, keyval, origin.record);
    else
        return call(stock.Win_create_keyval, copy, remove, keyval, origin.record);
}

template <class Handle, class Copy, class Delete, class Create>
int create_keyval(Create create, Copy *copy, Delete *remove, int *keyval, void *extra_state)
{
    using Record = Keyval<Copy, Delete>;
    auto *record = static_cast<Record *>(make_record(sizeof(Record)));
    *record = {copy, remove, extra_state, {}};
    const int result =
        call(create, copy_attribute<Handle, Copy, Delete>, delete_attribute<Handle, Copy, Delete>,
             keyval, static_cast<void *>(record));
    if (result == MPI_SUCCESS)
        remember_keyval({.number = *keyval,
                         .kind = kind_of<Handle>,
                         .record = record,
                         .proxies = &record->proxies,
                         .make = recreate_keyval<Handle, Copy, Delete>,
                         .get = get_attribute<Handle>,
                         .set = set_attribute<Handle>});
    return result;
}

constexpr int most_predefined = 64;
long communicator_values[most_predefined]; // the same for all communicators

} // namespace

// A predefined attribute's value is the address of a number inside the library; the program gets
// the address of a copy, which it may keep.
void copy_out_of_capsule(Object *object, int keyval, void *place)
{
    auto *value = static_cast<long **>(place);
    *value = static_cast<long *>(pointer_of_c(*value));
    if (!capsule::owns(*value))
        return;
    // What a function in Fortran has copied is a number to Open MPI, which C finds the address of:
    // that of a record.
    if (FortranValue *number = fortran_value(reinterpret_cast<void *>(**value));
        number != nullptr) {
        *value = &number->number;
        return;
    }
    const int slot = abi::attribute_slot(keyval);
    if (slot < 0 || slot >= most_predefined)
        fatal("attribute %d has a value inside the MPI library", keyval);
    long *copy = &communicator_values[slot];
    if (object->kind == Kind::Win)
        copy = &object->attributes[abi::window_slot(keyval)];
    *copy = **value;
    *value = copy;
}

} // namespace cryo::mpi

using namespace cryo::mpi;
using cryo::capsule::call;

EXPORTED int PMPI_Comm_create_keyval(MPI_Comm_copy_attr_function *copy,
                                     MPI_Comm_delete_attr_function *remove, int *keyval,
                                     void *extra_state)
{
    const Inside inside;
    return create_keyval<MPI_Comm>(stock.Comm_create_keyval, copy, remove, keyval, extra_state);
}
ALIAS(MPI_Comm_create_keyval, PMPI_Comm_create_keyval)

EXPORTED int PMPI_Keyval_create(MPI_Copy_function *copy, MPI_Delete_function *remove, int *keyval,
                                void *extra_state)
{
    const Inside inside;
    return create_keyval<MPI_Comm>(stock.Keyval_create, copy, remove, keyval, extra_state);
}
ALIAS(MPI_Keyval_create, PMPI_Keyval_create)

EXPORTED int PMPI_Type_create_keyval(MPI_Type_copy_attr_function *copy,
                                     MPI_Type_delete_attr_function *remove, int *keyval,
                                     void *extra_state)
{
    const Inside inside;
    return create_keyval<MPI_Datatype>(stock.Type_create_keyval, copy, remove, keyval, extra_state);
}
ALIAS(MPI_Type_create_keyval, PMPI_Type_create_keyval)

EXPORTED int PMPI_Win_create_keyval(MPI_Win_copy_attr_function *copy,
                                    MPI_Win_delete_attr_function *remove, int *keyval,
                                    void *extra_state)
{
    const Inside inside;
    return create_keyval<MPI_Win>(stock.Win_create_keyval, copy, remove, keyval, extra_state);
}
ALIAS(MPI_Win_create_keyval, PMPI_Win_create_keyval)

EXPORTED int PMPI_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag)
{
    const Inside inside;
    const int result = call(stock.Comm_get_attr, real_of(comm), keyval, value, flag);
    if (result == MPI_SUCCESS && *flag != 0)
        copy_out_of_capsule(object_of(comm), keyval, value);
    return result;
}
ALIAS(MPI_Comm_get_attr, PMPI_Comm_get_attr)

EXPORTED int PMPI_Attr_get(MPI_Comm comm, int keyval, void *value, int *flag)
{
    return PMPI_Comm_get_attr(comm, keyval, value, flag);
}
ALIAS(MPI_Attr_get, PMPI_Attr_get)

EXPORTED int PMPI_Type_get_attr(MPI_Datatype type, int keyval, void *value, int *flag)
{
    const Inside inside;
    const int result = call(stock.Type_get_attr, real_of(type), keyval, value, flag);
    if (result == MPI_SUCCESS && *flag != 0)
        copy_out_of_capsule(object_of(type), keyval, value);
    return result;
}
ALIAS(MPI_Type_get_attr, PMPI_Type_get_attr)

EXPORTED int PMPI_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag)
{
    const Inside inside;
    const int result = call(stock.Win_get_attr, real_of(win), keyval, value, flag);
    if (result != MPI_SUCCESS || *flag == 0)
        return result;
    Object *object = object_of(win);
    if (keyval == MPI_WIN_BASE) {
        translate_window_attribute(object, keyval, static_cast<long *>(value));
        return result;
    }
    copy_out_of_capsule(object, keyval, value);
    if (keyval == MPI_WIN_CREATE_FLAVOR || keyval == MPI_WIN_SIZE)
        translate_window_attribute(object, keyval, *static_cast<long **>(value));
    return result;
}
ALIAS(MPI_Win_get_attr, PMPI_Win_get_attr)

EXPORTED int PMPI_Comm_set_attr(MPI_Comm comm, int keyval, void *value)
{
    const Inside inside;
    return call(stock.Comm_set_attr, real_of(comm), keyval, word_of_c(value));
}
ALIAS(MPI_Comm_set_attr, PMPI_Comm_set_attr)

EXPORTED int PMPI_Attr_put(MPI_Comm comm, int keyval, void *value)
{
    return PMPI_Comm_set_attr(comm, keyval, value);
}
ALIAS(MPI_Attr_put, PMPI_Attr_put)

EXPORTED int PMPI_Type_set_attr(MPI_Datatype type, int keyval, void *value)
{
    const Inside inside;
    return call(stock.Type_set_attr, real_of(type), keyval, word_of_c(value));
}
ALIAS(MPI_Type_set_attr, PMPI_Type_set_attr)

EXPORTED int PMPI_Win_set_attr(MPI_Win win, int keyval, void *value)
{
    const Inside inside;
    return call(stock.Win_set_attr, real_of(win), keyval, word_of_c(value));
}
ALIAS(MPI_Win_set_attr, PMPI_Win_set_attr)

#ifdef OPEN_MPI

// Functions that a program may pass instead of its own. All kinds have the same shape.

#define ATTRIBUTE_FUNCTIONS(KIND, Handle)                                                          \
    EXPORTED int OMPI_C_MPI_##KIND##NULL_COPY_FN(Handle, int, void *, void *, void *, int *flag)   \
    {                                                                                              \
        *flag = 0;                                                                                 \
        return MPI_SUCCESS;                                                                        \
    }                                                                                              \
    EXPORTED int OMPI_C_MPI_##KIND##DUP_FN(Handle, int, void *, void *value, void *copy,           \
                                           int *flag)                                              \
    {                                                                                              \
        *flag = 1;                                                                                 \
        *static_cast<void **>(copy) = value;                                                       \
        return MPI_SUCCESS;                                                                        \
    }                                                                                              \
    EXPORTED int OMPI_C_MPI_##KIND##NULL_DELETE_FN(Handle, int, void *, void *)                    \
    {                                                                                              \
        return MPI_SUCCESS;                                                                        \
    }

ATTRIBUTE_FUNCTIONS(, MPI_Comm)
ATTRIBUTE_FUNCTIONS(COMM_, MPI_Comm)
ATTRIBUTE_FUNCTIONS(TYPE_, MPI_Datatype)
ATTRIBUTE_FUNCTIONS(WIN_, MPI_Win)

#endif
