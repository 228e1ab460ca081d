// SPDX-License-Identifier: Apache-2.0
// What Open MPI's Fortran libraries use of the C library since 5.0.
#include "mpi/wrap/wrapper.hpp"

#include <cstddef>
#include <cstdlib>
#include <cstring>

using namespace cryo::mpi;

namespace {

// The class by which the Fortran library releases a string: functions called before it is freed.
struct Class {
    void *unused[6];
    void *const *functions; // null-terminated
};
static_assert(offsetof(Class, functions) == 0x30);

// A string whose member offsets the Fortran library knows. It drops the reference that it gets
// here, which frees the string in the program's world.
struct String {
    const Class *its_class;
    int references;
    size_t length;
    char ignored;
    char text[7]; // extends beyond the struct
};
static_assert(offsetof(String, references) == 0x8);
static_assert(offsetof(String, length) == 0x10);
static_assert(offsetof(String, text) == 0x19);

String *make_string(size_t length)
{
    static void *const nothing = nullptr;
    static const Class its_class = {{}, &nothing};
    auto *made = static_cast<String *>(malloc(sizeof(String) + length));
    if (made != nullptr) {
        made->its_class = &its_class;
        made->references = 1;
        made->length = length;
        made->text[0] = 0;
    }
    return made;
}

// For Fortran a key that cannot be in an info is reported as not found, not as an error.
bool may_be_in(MPI_Info info, const char *key)
{
    return info != MPI_INFO_NULL && *key != 0 && strlen(key) < MPI_MAX_INFO_KEY;
}

} // namespace

EXPORTED int ompi_info_get_valuelen(MPI_Info info, const char *key, int *length, int *flag)
{
    if (may_be_in(info, key))
        return PMPI_Info_get_valuelen(info, key, length, flag);
    *flag = 0;
    return MPI_SUCCESS;
}

EXPORTED int ompi_info_get(MPI_Info info, const char *key, String **value, int *flag)
{
    int length = 0;
    int result = ompi_info_get_valuelen(info, key, &length, flag);
    if (result != MPI_SUCCESS || *flag == 0)
        return result;
    String *made = make_string(static_cast<size_t>(length));
    if (made == nullptr)
        return MPI_ERR_NO_MEM;
    result = PMPI_Info_get(info, key, length, made->text, flag);
    if (result == MPI_SUCCESS && *flag != 0)
        *value = made;
    else
        free(made);
    return result;
}

EXPORTED int ompi_info_get_nthkey(MPI_Info info, int n, String **key)
{
    *key = nullptr;
    int keys = 0;
    if (info != MPI_INFO_NULL && PMPI_Info_get_nkeys(info, &keys) != MPI_SUCCESS)
        return MPI_ERR_INFO;
    if (n < 0 || n >= keys)
        return MPI_ERR_ARG;
    String *made = make_string(MPI_MAX_INFO_KEY);
    if (made == nullptr)
        return MPI_ERR_NO_MEM;
    const int result = PMPI_Info_get_nthkey(info, n, made->text);
    if (result == MPI_SUCCESS) {
        made->length = strlen(made->text);
        *key = made;
    } else {
        free(made);
    }
    return result;
}

// Statuses of mpi_f08: the same six words in every language.

namespace {

int copy_status(const void *from, void *to)
{
    if (from == MPI_F_STATUS_IGNORE || from == MPI_F_STATUSES_IGNORE || from == MPI_STATUS_IGNORE ||
        from == MPI_STATUSES_IGNORE)
        return MPI_ERR_IN_STATUS;
    memcpy(to, from, sizeof(MPI_Status));
    return MPI_SUCCESS;
}

} // namespace

struct ompi_f08_status_public_t;
using F08Status = ompi_f08_status_public_t;

EXPORTED int PMPI_Status_c2f08(const MPI_Status *status, F08Status *f08_status)
{
    return copy_status(status, f08_status);
}
ALIAS(MPI_Status_c2f08, PMPI_Status_c2f08)

EXPORTED int PMPI_Status_f082c(const F08Status *f08_status, MPI_Status *status)
{
    return copy_status(f08_status, status);
}
ALIAS(MPI_Status_f082c, PMPI_Status_f082c)

EXPORTED int PMPI_Status_f082f(const F08Status *f08_status, MPI_Fint *words)
{
    return copy_status(f08_status, words);
}
ALIAS(MPI_Status_f082f, PMPI_Status_f082f)

EXPORTED int PMPI_Status_f2f08(const MPI_Fint *words, F08Status *f08_status)
{
    return copy_status(words, f08_status);
}
ALIAS(MPI_Status_f2f08, PMPI_Status_f2f08)
