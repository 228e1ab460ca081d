// SPDX-License-Identifier: Apache-2.0
//
// The objects behind the program's MPI handles. Each stores the stock library's own handle, so that
// the library can be replaced under the program.
//
//     Object *object = make_object(Kind::Comm, real);      // new, one reference
//     Object *object = adopt_object(Kind::Comm, real);     // known, or new; adds a reference
//     drop_object(object);
//
// The objects lie in Cryo's own memory (capsule::keep), which belongs neither to the program's heap
// nor to the capsule.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cryo::mpi {

enum class Kind : uint32_t {
    Comm,
    Datatype,
    Errhandler,
    File,
    Group,
    Info,
    Op,
    Request,
    Message,
    Win,
    Session,
};
constexpr size_t kind_count = 11;

// Open MPI's Fortran library accesses a few members of the C library's objects directly. They lie
// at the offsets where it looks for them (releases 4.1 and 5.0; for their differences see
// wrap/fortran.hpp).
struct Object {
    void *real; // the stock library's handle, which translation loads from here
    Kind kind;
    uint32_t references;
    Object *next;     // of a free object: the next one
    int group_number; // a group's Fortran number
    void *kept[2];    // arrays that the stock library reads until the request completes; the name
                      // of a file
    size_t kept_bytes[2];
    void *window; // memory of MPI_Win_allocate
    size_t window_bytes;
    uint32_t unused;
    uint32_t operation_flags; // says that the operation's function is written in Fortran
    // Of a request: 5.0's Fortran library takes a 1 to mean that the library is done with it, and
    // then frees the arrays that it made for the call at once. Ours are copies (kept).
    uint64_t is_completed;
    uint32_t unused_too[2];
    int fortran;        // its Fortran number, or -1
    long attributes[4]; // values of a window's predefined attributes
    // For the rank engine: the bookmark::Comm of a communicator, file or window; of a datatype, one
    // more than its size.
    void *traffic;
    uint32_t pins; // number of requests that need this datatype, even if the program frees it
    bool doomed;   // the program has freed it
    // For recreating it after a restart (wrap/replay.hpp).
    uint64_t made;    // ordinal of its creation
    uint32_t variant; // operation: whether it commutes; error handler: the kind it is for; file:
                      // whether its shared position is used
    uint32_t slot;    // of the program's function
    uint32_t owed;    // references that the library does not count
    uint32_t handle;  // the program's handle, if handles are integers (mpich/abi.hpp)
    void *state;      // of a window: rank::Window; of an operation: the program's function in C++
    bool callbacks_are_c; // of a generalized request
    // Of a communicator or window: whether it has an error handler of its own (rank/heard.hpp).
    enum class Handler : uint8_t { unknown, none, own } handler;
};
static_assert(offsetof(Object, real) == 0);
static_assert(offsetof(Object, group_number) == 0x18);
static_assert(offsetof(Object, operation_flags) == 0x54);
static_assert(offsetof(Object, is_completed) == 0x58);
static_assert(offsetof(Object, fortran) == 0x68);
static_assert(offsetof(Object, callbacks_are_c) == 0xc0);

// Large objects are those with attributes, requests and messages; in the last two the rank engine's
// record begins at behind_object. In the gap between the members and that record, 5.0's Fortran
// library notes in a request what is to be freed with it, and nothing reads that.
constexpr size_t large_object = 512;
constexpr size_t behind_object = 0xf0;
static_assert(sizeof(Object) <= 0xc8);
constexpr uint32_t operation_is_fortran = 2;

// Open MPI's Fortran library finds an object's attributes through a pointer inside it, which we set
// to the object itself. 0: such objects have no attributes. Newer: since 5.0.
constexpr size_t attributes_offset(Kind kind, bool is_newer)
{
    switch (kind) {
    case Kind::Comm:
        return is_newer ? 0x120 : 0x110;
    case Kind::Datatype:
        return 0xd0;
    case Kind::Win:
        return 0xf0;
    default:
        return 0;
    }
}

Object *make_object(Kind kind, void *real);
// Safe with the capsule's thread-local storage, as drop_object() is: for callbacks.
Object *adopt_object(Kind kind, void *real);
void drop_object(Object *object);

// The null object of a kind, whose address is MPI_COMM_NULL or its like.
Object *null_object(Kind kind);

// Fortran numbers. Those of predefined objects are the stock library's.
int number_object(Object *object);
Object *numbered_object(Kind kind, int number);
void number_predefined(Object *object, int number);

// The object behind a handle that is an integer; null for 0. A number that is not a handle of this
// kind gives a placeholder (is_no_object), which the library rejects.
Object *object_with_handle(Kind kind, uint32_t handle);
bool is_no_object(const Object *object);
Object *no_object(Kind kind);

// The library's predefined objects; generated. Looked up by symbol, or by handle.
struct Predefined {
    Object *object;
    const char *symbol;
    uint32_t handle;
    Kind kind;
    bool is_null;
    bool is_rare; // not every release of the library has it
};
extern const Predefined predefined[];
extern const size_t predefined_count;

// Binds the predefined objects to the open capsule. Returns null, or the symbol that it lacks.
const char *bind_predefined();

bool is_predefined(const Object *object);
// Whether there is an object of this kind at the address, which may be any.
bool is_object(const Object *object, Kind kind);
// The object that has this handle of the library; null: none.
Object *known_object(void *real);

// The number of requests.
size_t live_requests();

// True while the table's lock is held: a signal handler must not wait for an interrupted thread.
bool objects_are_busy();

// Iterates over all objects but predefined ones and requests; null after the last one.
// `from`: 0 at first. No object may be created or dropped meanwhile.
Object *next_object(size_t &from);

// In a restored copy: forgets the handles of the old library. May be called in a signal
// handler while no other thread runs.
void forget_library_handles();
// Gives an object its handle in the new library.
void bind_object(Object *object, void *real);

} // namespace cryo::mpi
