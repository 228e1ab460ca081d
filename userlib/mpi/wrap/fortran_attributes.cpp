// SPDX-License-Identifier: Apache-2.0
// Attributes from Fortran: Open MPI's binding library does not use the C functions for them,
// because values are integers there and callbacks take references. And keyvals from C++.
//
// C finds what Fortran has set as the address of a number, which natively lies in the library. It
// must outlive the library here, so the library stores the number's record (FortranValue) as if C
// had set it.
#include "mpi/wrap/callback.hpp"
#include "mpi/wrap/fortran_values.hpp"
#include "mpi/wrap/keyvals.hpp"
#include "mpi/wrap/windows.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstring>

namespace cryo::mpi {

namespace {

using capsule::call;
using capsule::call_home;

// The library's numbers for the kinds of objects that have attributes.
enum class Owner { Comm = 1, Datatype, Win };

// Attributes are integers of the size of an address, or default integers in the deprecated
// functions.
template <class Value>
using CopyFunction = void(MPI_Fint *, MPI_Fint *, Value *, Value *, Value *, MPI_Fint *,
                          MPI_Fint *);
template <class Value>
using DeleteFunction = void(MPI_Fint *, MPI_Fint *, Value *, Value *, MPI_Fint *);

struct Keyval {
    Owner owner;
    int flags;     // of the library's
    bool is_short; // default integers
    void *copy;
    void *remove;
    MPI_Aint extra_state;
};

// Our object for the stock library's number of one. Runs in the capsule.
Shown shown(Owner owner, MPI_Fint number)
{
    switch (owner) {
    case Owner::Datatype:
        return Shown(stock.Type_f2c(number));
    case Owner::Win:
        return Shown(stock.Win_f2c(number));
    default:
        return Shown(stock.Comm_f2c(number));
    }
}

MPI_Fint our_number(const Shown &shown)
{
    return shown.object() != nullptr ? number_object(shown.object()) : -1;
}

const Keyval *record_of(const MPI_Aint *extra)
{
    return reinterpret_cast<const Keyval *>(*extra);
}

FortranValue *number_in(MPI_Aint word)
{
    return fortran_value(reinterpret_cast<void *>(word));
}

// What Fortran finds: its number, or what C or the library have set.
MPI_Aint seen_in_fortran(MPI_Aint word)
{
    const FortranValue *number = number_in(word);
    if (number != nullptr)
        return number->number;
    return reinterpret_cast<MPI_Aint>(pointer_of_c(reinterpret_cast<void *>(word)));
}

template <class Value>
void copy_with(const Keyval *ours, MPI_Fint *from, MPI_Fint *keyval, MPI_Aint *in, MPI_Aint *out,
               MPI_Fint *flag, MPI_Fint *error)
{
    auto extra = static_cast<Value>(ours->extra_state);
    auto value = static_cast<Value>(seen_in_fortran(*in));
    Value copy = 0;
    call_home(reinterpret_cast<CopyFunction<Value> *>(ours->copy), from, keyval, &extra, &value,
              &copy, flag, error);
    if (*flag == 0 || *error != MPI_SUCCESS)
        return;
    const FortranValue *made = make_fortran_value(copy);
    if (made == nullptr)
        *error = MPI_ERR_NO_MEM;
    *out = reinterpret_cast<MPI_Aint>(made);
}

void copy_attribute(MPI_Fint *from, MPI_Fint *keyval, MPI_Aint *extra, MPI_Aint *in, MPI_Aint *out,
                    MPI_Fint *flag, MPI_Fint *error)
{
    const Keyval *ours = record_of(extra);
    const Shown owner = shown(ours->owner, *from);
    MPI_Fint number = our_number(owner);
    if (ours->is_short)
        copy_with<MPI_Fint>(ours, &number, keyval, in, out, flag, error);
    else
        copy_with<MPI_Aint>(ours, &number, keyval, in, out, flag, error);
}

template <class Value>
void delete_with(const Keyval *ours, MPI_Fint *from, MPI_Fint *keyval, MPI_Aint *in,
                 MPI_Fint *error)
{
    auto extra = static_cast<Value>(ours->extra_state);
    auto value = static_cast<Value>(seen_in_fortran(*in));
    FortranValue *number = number_in(*in);
    call_home(reinterpret_cast<DeleteFunction<Value> *>(ours->remove), from, keyval, &value, &extra,
              error);
    if (number != nullptr && *error == MPI_SUCCESS)
        drop_fortran_value(number);
}

void delete_attribute(MPI_Fint *from, MPI_Fint *keyval, MPI_Aint *in, MPI_Aint *extra,
                      MPI_Fint *error)
{
    const Keyval *ours = record_of(extra);
    const Shown owner = shown(ours->owner, *from);
    MPI_Fint number = our_number(owner);
    if (ours->is_short)
        delete_with<MPI_Fint>(ours, &number, keyval, in, error);
    else
        delete_with<MPI_Aint>(ours, &number, keyval, in, error);
}

using CreateKeyval = int(int, void *, void *, int *, MPI_Aint, int, void *);

int make_keyval(Keyval *record, int *keyval)
{
    const auto create = capsule::function<CreateKeyval *>("ompi_attr_create_keyval_aint");
    return call(create, static_cast<int>(record->owner), reinterpret_cast<void *>(copy_attribute),
                reinterpret_cast<void *>(delete_attribute), keyval,
                reinterpret_cast<MPI_Aint>(record), record->flags, nullptr);
}

// The pointer inside the library's own object that leads to its attributes.
void **real_attributes(const Object *object)
{
    return reinterpret_cast<void **>(static_cast<char *>(object->real) +
                                     attributes_offset(object->kind, library_is_newer()));
}

int get(const Object *object, int keyval, MPI_Aint *word, int *flag)
{
    auto get_real =
        capsule::function<int (*)(void *, int, MPI_Aint *, int *)>("ompi_attr_get_aint");
    return call(get_real, *real_attributes(object), keyval, word, flag);
}

int set(int owner, const Object *object, int keyval, void *word)
{
    auto set_real =
        capsule::function<int (*)(int, void *, void **, int, void *, bool)>("ompi_attr_set_c");
    return call(set_real, owner, object->real, real_attributes(object), keyval, word, false);
}

int set_number(int owner, const Object *object, int keyval, MPI_Aint value)
{
    FortranValue *number = make_fortran_value(value);
    if (number == nullptr)
        return MPI_ERR_NO_MEM;
    const int result = set(owner, object, keyval, number);
    if (result != MPI_SUCCESS)
        drop_fortran_value(number);
    return result;
}

int recreate_keyval(const KeyvalOrigin &origin, int *keyval)
{
    return make_keyval(static_cast<Keyval *>(origin.record), keyval);
}

int get_attribute(Object *object, int keyval, void **value, int *flag)
{
    return get(object, keyval, reinterpret_cast<MPI_Aint *>(value), flag);
}

int set_attribute(Object *object, int keyval, void *value)
{
    const Owner owner = object->kind == Kind::Comm       ? Owner::Comm
                        : object->kind == Kind::Datatype ? Owner::Datatype
                                                         : Owner::Win;
    return set(static_cast<int>(owner), object, keyval, value);
}

Kind kind_of_owner(Owner owner)
{
    return owner == Owner::Comm       ? Kind::Comm
           : owner == Owner::Datatype ? Kind::Datatype
                                      : Kind::Win;
}

int create_keyval(Owner owner, bool is_short, void *copy, void *remove, int *keyval,
                  MPI_Aint extra_state, int flags)
{
    auto *record = static_cast<Keyval *>(make_record(sizeof(Keyval)));
    *record = {owner, flags, is_short, copy, remove, extra_state};
    const int result = make_keyval(record, keyval);
    if (result == MPI_SUCCESS)
        remember_keyval({.number = *keyval,
                         .kind = kind_of_owner(owner),
                         .record = record,
                         .make = recreate_keyval,
                         .get = get_attribute,
                         .set = set_attribute});
    return result;
}

} // namespace

} // namespace cryo::mpi

using namespace cryo::mpi;

EXPORTED int ompi_attr_create_keyval_aint(int owner, void *copy, void *remove, int *keyval,
                                          MPI_Aint extra_state, int flags, void * /*bindings*/)
{
    const Inside inside;
    return create_keyval(static_cast<Owner>(owner), false, copy, remove, keyval, extra_state,
                         flags);
}

EXPORTED int ompi_attr_create_keyval_fint(int owner, void *copy, void *remove, int *keyval,
                                          MPI_Fint extra_state, int flags, void * /*bindings*/)
{
    const Inside inside;
    return create_keyval(static_cast<Owner>(owner), true, copy, remove, keyval, extra_state, flags);
}

// `object`: the pointer at attributes_offset() in an object of ours: the object itself.
EXPORTED int ompi_attr_get_aint(const Object *object, int keyval, MPI_Aint *value, int *flag)
{
    const Inside inside;
    const int result = get(object, keyval, value, flag);
    if (result != MPI_SUCCESS || *flag == 0)
        return result;
    *value = seen_in_fortran(*value);
    if (object->kind == Kind::Win)
        translate_window_attribute(object, keyval, value);
    return result;
}

EXPORTED int ompi_attr_get_fint(const Object *object, int keyval, MPI_Fint *value, int *flag)
{
    const Inside inside;
    MPI_Aint word = 0;
    const int result = get(object, keyval, &word, flag);
    if (result == MPI_SUCCESS && *flag != 0)
        *value = static_cast<MPI_Fint>(seen_in_fortran(word));
    return result;
}

EXPORTED int ompi_attr_set_aint(int owner, const Object *object, void ** /*attributes*/, int keyval,
                                MPI_Aint value, bool /*predefined*/)
{
    const Inside inside;
    return set_number(owner, object, keyval, value);
}

EXPORTED int ompi_attr_set_fint(int owner, const Object *object, void ** /*attributes*/, int keyval,
                                MPI_Fint value, bool /*predefined*/)
{
    const Inside inside;
    return set_number(owner, object, keyval, value);
}

// From C++: the functions that Open MPI's C++ library passes are called as in C.
EXPORTED int ompi_attr_create_keyval(int owner, void *copy, void *remove, int *keyval,
                                     void *extra_state, int /*flags*/, void * /*bindings*/)
{
    switch (static_cast<Owner>(owner)) {
    case Owner::Comm:
        return PMPI_Comm_create_keyval(reinterpret_cast<MPI_Comm_copy_attr_function *>(copy),
                                       reinterpret_cast<MPI_Comm_delete_attr_function *>(remove),
                                       keyval, extra_state);
    case Owner::Datatype:
        return PMPI_Type_create_keyval(reinterpret_cast<MPI_Type_copy_attr_function *>(copy),
                                       reinterpret_cast<MPI_Type_delete_attr_function *>(remove),
                                       keyval, extra_state);
    case Owner::Win:
        return PMPI_Win_create_keyval(reinterpret_cast<MPI_Win_copy_attr_function *>(copy),
                                      reinterpret_cast<MPI_Win_delete_attr_function *>(remove),
                                      keyval, extra_state);
    }
    return MPI_ERR_ARG;
}

// Functions that a Fortran program may pass instead of its own, in every spelling of compilers.
#define SPELLINGS(lower, upper, target)                                                            \
    SPELLING(lower, target)                                                                        \
    SPELLING(lower##_, target)                                                                     \
    SPELLING(lower##__, target)                                                                    \
    SPELLING(upper, target)

#define FORTRAN_ATTRIBUTE_FUNCTIONS(lower, upper, name, bytes)                                     \
    EXPORTED void ompi_##name##null_copy_fn_f(MPI_Fint *, MPI_Fint *, void *, void *, void *,      \
                                              MPI_Fint *flag, MPI_Fint *error)                     \
    {                                                                                              \
        *flag = 0;                                                                                 \
        *error = MPI_SUCCESS;                                                                      \
    }                                                                                              \
    EXPORTED void ompi_##name##dup_fn_f(MPI_Fint *, MPI_Fint *, void *, void *value, void *copy,   \
                                        MPI_Fint *flag, MPI_Fint *error)                           \
    {                                                                                              \
        *flag = 1;                                                                                 \
        memcpy(copy, value, bytes);                                                                \
        *error = MPI_SUCCESS;                                                                      \
    }                                                                                              \
    EXPORTED void ompi_##name##null_delete_fn_f(MPI_Fint *, MPI_Fint *, void *, void *,            \
                                                MPI_Fint *error)                                   \
    {                                                                                              \
        *error = MPI_SUCCESS;                                                                      \
    }                                                                                              \
    SPELLINGS(lower##null_copy_fn, upper##NULL_COPY_FN, ompi_##name##null_copy_fn_f)               \
    SPELLINGS(lower##dup_fn, upper##DUP_FN, ompi_##name##dup_fn_f)                                 \
    SPELLINGS(lower##null_delete_fn, upper##NULL_DELETE_FN, ompi_##name##null_delete_fn_f)

// mpi.h defines the upper-case names for C.
#undef MPI_NULL_COPY_FN
#undef MPI_DUP_FN
#undef MPI_NULL_DELETE_FN
#undef MPI_COMM_NULL_COPY_FN
#undef MPI_COMM_DUP_FN
#undef MPI_COMM_NULL_DELETE_FN
#undef MPI_TYPE_NULL_COPY_FN
#undef MPI_TYPE_DUP_FN
#undef MPI_TYPE_NULL_DELETE_FN
#undef MPI_WIN_NULL_COPY_FN
#undef MPI_WIN_DUP_FN
#undef MPI_WIN_NULL_DELETE_FN

FORTRAN_ATTRIBUTE_FUNCTIONS(mpi_, MPI_, , sizeof(MPI_Fint))
FORTRAN_ATTRIBUTE_FUNCTIONS(mpi_comm_, MPI_COMM_, comm_, sizeof(MPI_Aint))
FORTRAN_ATTRIBUTE_FUNCTIONS(mpi_type_, MPI_TYPE_, type_, sizeof(MPI_Aint))
FORTRAN_ATTRIBUTE_FUNCTIONS(mpi_win_, MPI_WIN_, win_, sizeof(MPI_Aint))
