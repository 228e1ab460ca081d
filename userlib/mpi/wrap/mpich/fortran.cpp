// SPDX-License-Identifier: Apache-2.0
// What MPICH's Fortran library uses of its C library besides MPI functions.
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/fortran_values.hpp"
#include "mpi/wrap/keyvals.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstdint>

using namespace cryo;
using namespace cryo::mpi;
using cryo::capsule::call;

// mpi_f08 recognizes these by their addresses.
extern "C" {
[[gnu::visibility("default")]] MPI_F08_status MPIR_F08_MPI_STATUS_IGNORE_OBJ;
[[gnu::visibility("default")]] MPI_F08_status MPIR_F08_MPI_STATUSES_IGNORE_OBJ[1];
[[gnu::visibility("default")]] int MPIR_F08_MPI_IN_PLACE;
[[gnu::visibility("default")]] int MPIR_F08_MPI_BOTTOM;
[[gnu::visibility("default")]] MPI_F08_status *MPI_F08_STATUS_IGNORE =
    &MPIR_F08_MPI_STATUS_IGNORE_OBJ;
[[gnu::visibility("default")]] MPI_F08_status *MPI_F08_STATUSES_IGNORE =
    MPIR_F08_MPI_STATUSES_IGNORE_OBJ;
}

namespace {

// For a predefined attribute Fortran asks for the value, where C gets its address, with a keyval
// one above that of C.
bool is_predefined_keyval(int keyval)
{
    return (static_cast<uint32_t>(keyval) & 0xc0000000U) == 0x40000000U;
}

// Attributes of windows are not all default integers.
MPI_Aint predefined_value(int keyval, void *found)
{
    if (keyval == MPI_WIN_BASE)
        return reinterpret_cast<MPI_Aint>(found);
    return keyval == MPI_WIN_SIZE ? *static_cast<const MPI_Aint *>(found)
                                  : *static_cast<const int *>(found);
}

// `get_word`: the library's own function, which is to be read inside an MPI function only.
template <class Handle, class Get>
int get_value(Handle handle, int keyval, void *value, int *flag, Get get, const Get &get_word)
{
    void *found = nullptr;
    auto *number = static_cast<MPI_Aint *>(value);
    if (is_predefined_keyval(keyval)) {
        const int in_c = keyval % 2 == 0 ? keyval - 1 : keyval;
        const int result = get(handle, in_c, &found, flag);
        if (result == MPI_SUCCESS && *flag != 0)
            *number = predefined_value(in_c, found);
        return result;
    }
    const Inside inside;
    const int result = call(get_word, real_of(handle), keyval, static_cast<void *>(&found), flag);
    if (result != MPI_SUCCESS || *flag == 0)
        return result;
    const FortranValue *record = fortran_value(found);
    *number = record != nullptr ? record->number : reinterpret_cast<MPI_Aint>(pointer_of_c(found));
    return result;
}

template <class Handle, class Set>
int set_value(Handle handle, int keyval, void *value, const Set &set_word)
{
    const Inside inside;
    FortranValue *number = make_fortran_value(reinterpret_cast<intptr_t>(value));
    if (number == nullptr)
        return MPI_ERR_NO_MEM;
    const int result = call(set_word, real_of(handle), keyval, static_cast<void *>(number));
    if (result != MPI_SUCCESS)
        drop_fortran_value(number);
    return result;
}

} // namespace

EXPORTED int MPII_Comm_get_attr(MPI_Comm comm, int keyval, void *value, int *flag, int /*type*/)
{
    return get_value(comm, keyval, value, flag, PMPI_Comm_get_attr, stock.Comm_get_attr);
}

EXPORTED int MPII_Comm_set_attr(MPI_Comm comm, int keyval, void *value, int /*type*/)
{
    return set_value(comm, keyval, value, stock.Comm_set_attr);
}

EXPORTED int MPII_Type_get_attr(MPI_Datatype type, int keyval, void *value, int *flag, int /*type*/)
{
    return get_value(type, keyval, value, flag, PMPI_Type_get_attr, stock.Type_get_attr);
}

EXPORTED int MPII_Type_set_attr(MPI_Datatype type, int keyval, void *value, int /*type*/)
{
    return set_value(type, keyval, value, stock.Type_set_attr);
}

EXPORTED int MPII_Win_get_attr(MPI_Win win, int keyval, void *value, int *flag, int /*type*/)
{
    return get_value(win, keyval, value, flag, PMPI_Win_get_attr, stock.Win_get_attr);
}

EXPORTED int MPII_Win_set_attr(MPI_Win win, int keyval, void *value, int /*type*/)
{
    return set_value(win, keyval, value, stock.Win_set_attr);
}

EXPORTED void MPII_Keyval_set_proxy(int keyval, decltype(KeyvalProxies::copy) copy,
                                    decltype(KeyvalProxies::remove) remove)
{
    const Inside inside;
    set_keyval_proxies(keyval, {.copy = copy, .remove = remove});
}

// The request's callbacks are called as Fortran functions.
EXPORTED void MPII_Grequest_set_lang_f77(MPI_Request request)
{
    const Inside inside;
    object_of(request)->callbacks_are_c = false;
}

// Called by the generated table of functions (missing.gen.S).
extern "C" [[noreturn, gnu::visibility("hidden")]] void cryo_mpich_lacks(const char *function)
{
    fatal("%s of MPICH is not covered; run this program without cr_run", function);
}
