// SPDX-License-Identifier: Apache-2.0
// What Open MPI's Fortran and C++ libraries use of the C library besides MPI functions:
// constants, a little state, conversions of strings.
#include "mpi/wrap/fortran.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/wrapper.hpp"

#include <cstdlib>
#include <cstring>
#include <dlfcn.h>

#define EXPORTED_DATA [[gnu::visibility("default")]]

extern "C" {
// A Fortran program defines these as common blocks, and then its definitions prevail: the binding
// library compares addresses with them.
EXPORTED_DATA char mpi_fortran_argv_null_;
EXPORTED_DATA char mpi_fortran_argvs_null_;
EXPORTED_DATA int mpi_fortran_bottom_;
EXPORTED_DATA int mpi_fortran_errcodes_ignore_;
EXPORTED_DATA int mpi_fortran_in_place_;
EXPORTED_DATA int mpi_fortran_unweighted_;
EXPORTED_DATA int mpi_fortran_weights_empty_;
EXPORTED_DATA int mpi_fortran_status_ignore_[2];
EXPORTED_DATA int mpi_fortran_statuses_ignore_[2];
EXPORTED_DATA MPI_Fint *MPI_F_STATUS_IGNORE = mpi_fortran_status_ignore_;
EXPORTED_DATA MPI_Fint *MPI_F_STATUSES_IGNORE = mpi_fortran_statuses_ignore_;
EXPORTED_DATA extern MPI_Fint *MPI_F08_STATUS_IGNORE;
EXPORTED_DATA extern MPI_Fint *MPI_F08_STATUSES_IGNORE;
MPI_Fint *MPI_F08_STATUS_IGNORE = mpi_fortran_status_ignore_;
MPI_Fint *MPI_F08_STATUSES_IGNORE = mpi_fortran_statuses_ignore_;

EXPORTED_DATA bool ompi_mpi_param_check = true;
EXPORTED_DATA int ompi_mpi_state;
EXPORTED_DATA extern int ompi_instance_count;
int ompi_instance_count; // used instead since 5.0
EXPORTED_DATA MPI_Status ompi_status_empty;

// Internal error codes: the wrappers return none, so there is nothing to translate.
EXPORTED_DATA int ompi_errcode_intern_lastused;
EXPORTED_DATA char ompi_errcodes_intern[0x78];

// A list of what the Fortran library must free: an empty one points to itself.
struct OpalList {
    void *object[2];
    struct Item {
        void *object[2];
        Item *next;
        Item *previous;
        long is_free;
    } sentinel;
    size_t length;
};
static_assert(sizeof(OpalList) == 0x40);
EXPORTED_DATA extern OpalList ompi_registered_datareps;
OpalList ompi_registered_datareps = {
    {},
    {{}, &ompi_registered_datareps.sentinel, &ompi_registered_datareps.sentinel, 0},
    0,
};
}

namespace cryo::mpi {

using capsule::call;

namespace {

constexpr int out_of_resource = -2; // OMPI_ERR_OUT_OF_RESOURCE

// Offsets in a communicator of the members that the Fortran library reads.
struct Places {
    size_t flags;  // the lowest bit: inter-communicator
    size_t groups; // local, then remote
};
constexpr Places places(bool is_newer)
{
    return is_newer ? Places{0xe0, 0x108} : Places{0xe8, 0xf8};
}
constexpr size_t group_size = 0x10;

struct Release {
    bool is_known;
    bool is_newer;
};
Release library; // of the capsule's library
Release fortran; // of the program's Fortran library, which a restart does not change

template <class Value>
void refresh(Value &ours, const char *symbol)
{
    if (const void *real = capsule::symbol(symbol))
        memcpy(&ours, real, sizeof(ours));
}

// The length of a Fortran string without trailing blanks.
size_t length_of(const char *text, int length)
{
    auto end = static_cast<size_t>(length > 0 ? length : 0);
    while (end > 0 && text[end - 1] == ' ')
        end--;
    return end;
}

char *c_string(const char *text, int length)
{
    const size_t bytes = length_of(text, length);
    auto *made = static_cast<char *>(malloc(bytes + 1));
    if (made != nullptr) {
        memcpy(made, text, bytes);
        made[bytes] = 0;
    }
    return made;
}

bool is_blank(const char *text, int length)
{
    return length_of(text, length) == 0;
}

void free_argv(char **argv)
{
    for (char **word = argv; word != nullptr && *word != nullptr; word++)
        free(*word);
    free(argv);
}

// `count` strings, `advance` bytes apart, as an argv.
int make_argv(const char *array, int count, int length, int advance, char ***argv)
{
    auto **made = static_cast<char **>(calloc(static_cast<size_t>(count) + 1, sizeof(char *)));
    if (made == nullptr)
        return out_of_resource;
    for (int i = 0; i < count; i++) {
        made[i] = c_string(array + static_cast<ptrdiff_t>(i) * advance, length);
        if (made[i] == nullptr) {
            free_argv(made);
            return out_of_resource;
        }
    }
    *argv = made;
    return MPI_SUCCESS;
}

// Rejects Fortran programs with a release whose offsets are unknown: in MPI_COMM_WORLD both groups
// must be the same one, with the right number of members.
void check_places()
{
    if (!fortran.is_known)
        return;
    int members = 0;
    call(stock.Comm_size, real_of(MPI_COMM_WORLD), &members);
    const auto *world = reinterpret_cast<const char *>(real_of(MPI_COMM_WORLD));
    const char *groups[2];
    memcpy(static_cast<void *>(groups), world + places(library.is_newer).groups, sizeof(groups));
    int size = 0;
    if (groups[0] != nullptr && groups[0] == groups[1])
        memcpy(&size, groups[0] + group_size, sizeof(size));
    if (size != members)
        fatal("this release of Open MPI is not supported for Fortran programs");
}

template <class Handle>
void number(Object *object, MPI_Fint (*number_of)(Handle))
{
    if (object->real == nullptr)
        return; // not in this release
    const MPI_Fint found = call(number_of, static_cast<Handle>(object->real));
    if (found >= 0)
        number_predefined(object, found);
}

} // namespace

// Stores Fortran's numbers of the predefined handles, which the library reports once initialized.
void number_predefined_objects()
{
    check_places();
    for (size_t i = 0; i < predefined_count; i++) {
        Object *object = predefined[i].object;
        switch (predefined[i].kind) {
        case Kind::Comm:
            number(object, stock.Comm_c2f);
            break;
        case Kind::Datatype:
            number(object, stock.Type_c2f);
            break;
        case Kind::Errhandler:
            number(object, stock.Errhandler_c2f);
            break;
        case Kind::File:
            number(object, stock.File_c2f);
            break;
        case Kind::Group:
            number(object, stock.Group_c2f);
            break;
        case Kind::Info:
            number(object, stock.Info_c2f);
            break;
        case Kind::Op:
            number(object, stock.Op_c2f);
            break;
        case Kind::Request:
            number(object, stock.Request_c2f);
            break;
        case Kind::Message:
            number(object, stock.Message_c2f);
            break;
        case Kind::Win:
            number(object, stock.Win_c2f);
            break;
        case Kind::Session:
            if (stock.Session_c2f != nullptr)
                number(object, stock.Session_c2f);
            break;
        }
    }
}

void know_releases()
{
    library = {true, capsule::symbol("ompi_instance_count") != nullptr};
    // Only the first time: a library may be opened again in a signal handler that interrupted
    // the program's malloc, which dlopen calls too.
    static bool has_looked;
    if (has_looked)
        return;
    has_looked = true;
    // The library of mpif.h, which the others build on. Sessions came with 5.0.
    if (void *found = dlopen("libmpi_mpifh.so.40", RTLD_LAZY | RTLD_NOLOAD)) {
        fortran = {true, dlsym(found, "ompi_session_init_f") != nullptr};
        dlclose(found);
    }
}

bool library_is_newer()
{
    return library.is_newer;
}

// A Fortran library that is loaded later is assumed to be of the capsule library's release.
bool fortran_is_newer()
{
    return fortran.is_known ? fortran.is_newer : library.is_newer;
}

void fortran_state_changed()
{
    refresh(ompi_mpi_state, "ompi_mpi_state");
    refresh(ompi_instance_count, "ompi_instance_count");
    refresh(ompi_mpi_param_check, "ompi_mpi_param_check");
    refresh(ompi_status_empty, "ompi_status_empty");
}

void mirror_communicator(Object *object)
{
    if (object == nullptr || object->real == nullptr)
        return;
    const Places from = places(library_is_newer());
    const Places to = places(fortran_is_newer());
    auto *ours = reinterpret_cast<char *>(object);
    const auto *real = static_cast<const char *>(object->real);
    memcpy(ours + to.flags, real + from.flags, sizeof(uint32_t));
    memcpy(ours + to.groups, real + from.groups, 2 * sizeof(void *));
}

} // namespace cryo::mpi

using namespace cryo::mpi;

// Strings: what is made here is freed by the Fortran library, in the program's world.

EXPORTED int ompi_fortran_string_f2c(const char *text, int length, char **made)
{
    while (length > 0 && *text == ' ') {
        text++;
        length--;
    }
    *made = c_string(text, length);
    return *made != nullptr ? MPI_SUCCESS : out_of_resource;
}

EXPORTED int ompi_fortran_string_c2f(const char *text, char *place, int length)
{
    const auto room = static_cast<size_t>(length);
    const size_t bytes = strlen(text) < room ? strlen(text) : room;
    memcpy(place, text, bytes); // NOLINT(bugprone-not-null-terminated-result): Fortran
    memset(place + bytes, ' ', room - bytes);
    return MPI_SUCCESS;
}

EXPORTED int ompi_fortran_argv_blank_f2c(const char *array, int length, int advance, char ***argv)
{
    int count = 0;
    while (!is_blank(array + static_cast<ptrdiff_t>(count) * advance, length))
        count++;
    return make_argv(array, count, length, advance, argv);
}

EXPORTED int ompi_fortran_argv_count_f2c(const char *array, int count, int length, int advance,
                                         char ***argv)
{
    return make_argv(array, count, length, advance, argv);
}

EXPORTED int ompi_fortran_multiple_argvs_f2c(int count, const char *array, int length,
                                             char ****argvs)
{
    auto ***made = static_cast<char ***>(calloc(static_cast<size_t>(count), sizeof(char **)));
    if (made == nullptr)
        return out_of_resource;
    for (int i = 0; i < count; i++) {
        const int error = ompi_fortran_argv_blank_f2c(array + static_cast<ptrdiff_t>(i) * length,
                                                      length, count * length, &made[i]);
        if (error != MPI_SUCCESS) {
            for (int done = 0; done < i; done++)
                free_argv(made[done]);
            free(made);
            return error;
        }
    }
    *argvs = made;
    return MPI_SUCCESS;
}

EXPORTED MPI_Datatype ompi_datatype_match_size(int size, unsigned short kind,
                                               unsigned short language)
{
    const Inside inside;
    using Match = MPI_Datatype(int, unsigned short, unsigned short);
    const auto match = cryo::capsule::function<Match *>("ompi_datatype_match_size");
    return adopt(cryo::capsule::call(match, size, kind, language));
}

// Errors that the binding library finds itself. It read `handler` from our object, so that is not
// valid; errors of sessions go to MPI_COMM_WORLD.
EXPORTED int ompi_errhandler_invoke(void * /*handler*/, Object *object, int type, int code,
                                    const char * /*message*/)
{
    constexpr int session = 4;
    const Inside inside;
    if (object == nullptr || type == session)
        return PMPI_Comm_call_errhandler(MPI_COMM_WORLD, code);
    switch (object->kind) {
    case Kind::Win:
        PMPI_Win_call_errhandler(handle_of<MPI_Win>(object), code);
        break;
    case Kind::File:
        PMPI_File_call_errhandler(handle_of<MPI_File>(object), code);
        break;
    default:
        PMPI_Comm_call_errhandler(MPI_COMM_WORLD, code);
        break;
    }
    return code;
}

EXPORTED void ompi_mpi_errors_are_fatal_comm_handler(MPI_Comm * /*comm*/, int *code, ...)
{
    fatal(
        "an MPI function was called from Fortran before MPI_INIT or after MPI_FINALIZE (error %d)",
        code != nullptr ? *code : MPI_ERR_OTHER);
}

EXPORTED void mpi_conversion_fn_null_f()
{
    fatal("MPI_CONVERSION_FN_NULL was called");
}
SPELLING(mpi_conversion_fn_null_, mpi_conversion_fn_null_f)
