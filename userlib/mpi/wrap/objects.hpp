// SPDX-License-Identifier: Apache-2.0
//
// What the program's MPI handles point to. Each object remembers the stock library's own handle, so
// that the library can be replaced under the program.
//
//     Object *object = make_object(Kind::Comm, real);      // new, one reference
//     Object *object = adopt_object(Kind::Comm, real);     // the known one, or new; one more
//     reference drop_object(object);
//
// The objects lie in memory of Cryo's own (capsule::keep): neither the program's heap nor the
// capsule knows of them.
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

// Open MPI's Fortran library reads and writes a few members of the C library's objects without
// asking it. They are here at the places where it looks for them (releases 4.1 and 5.0; where these
// differ: fortran.hpp).
struct Object {
    void *real; // the stock library's handle, which translation loads from here
    Kind kind;
    uint32_t references;
    Object *next;     // of a free object
    int group_number; // a group's Fortran number
    void *kept[2];    // arrays that the stock library reads until the request completes; the name
                      // of a file
    size_t kept_bytes[2];
    void *window; // memory of MPI_Win_allocate
    size_t window_bytes;
    uint32_t unused;
    uint32_t operation_flags; // says that the operation's function is written in Fortran
    // Of a request: 5.0's takes a 1 for the library's being done with it, and then frees at once
    // the arrays that it made for the call. Ours are copies (kept).
    uint64_t is_completed;
    uint32_t unused_too[2];
    int fortran;        // its Fortran number, or -1
    long attributes[4]; // what predefined attributes of a window point to
    // For the rank engine: a communicator's (file's, window's) bookmark::Comm; of a datatype, one
    // more than its size.
    void *traffic;
    uint32_t pins; // of a datatype: requests that will need it, though the program may free it
    bool doomed;   // the program has
    // For making it again after a restart (replay.hpp).
    uint64_t made;    // in which order
    uint32_t variant; // of an operation: whether it commutes; of an error handler: for what it is
    uint32_t slot;    // of the program's function
    uint32_t owed;    // references that the library does not know of
    uint32_t handle;  // the program's, of a library whose handles are integers (mpich/abi.hpp)
    void *state;      // of a window: rank::Window; of an operation: the program's function in C++
    bool callbacks_are_c; // of a generalized request
    // Of a communicator or window: whether it has an error handler of its own (heard.hpp).
    enum class Handler : uint8_t { unknown, none, own } handler;
};
static_assert(offsetof(Object, real) == 0);
static_assert(offsetof(Object, group_number) == 0x18);
static_assert(offsetof(Object, operation_flags) == 0x54);
static_assert(offsetof(Object, is_completed) == 0x58);
static_assert(offsetof(Object, fortran) == 0x68);
static_assert(offsetof(Object, callbacks_are_c) == 0xc0);

// Objects with attributes, requests and messages; behind the last two's the rank engine has its
// own. Between the members and that one, up to behind_object, 5.0's Fortran library writes down in
// a request what is to be freed with it, and nobody reads it.
constexpr size_t large_object = 512;
constexpr size_t behind_object = 0xf0;
static_assert(sizeof(Object) <= 0xc8);
constexpr uint32_t operation_is_fortran = 2;

// Open MPI's Fortran library finds an object's attributes by a pointer inside it, which is ours to
// fill: it holds the object itself. 0: such objects have no attributes. Newer: since 5.0.
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
Object *adopt_object(Kind kind, void *real);
// Without a reference more: for callbacks. Safe with the capsule's thread-local storage.
Object *find_object(Kind kind, void *real);
void drop_object(Object *object);

// The null object of a kind, whose address is MPI_COMM_NULL or its like.
Object *null_object(Kind kind);

// Fortran numbers. Those of predefined objects are the stock library's.
int number_object(Object *object);
Object *numbered_object(Kind kind, int number);
void number_predefined(Object *object, int number);

// The object behind a handle that is an integer; null for 0. A number that is no handle of this
// kind leads to an object that stands for none (is_no_object), which the library refuses.
Object *object_with_handle(Kind kind, uint32_t handle);
bool is_no_object(const Object *object);
Object *no_object(Kind kind);

// The library's own objects; generated. Found by name, or by number.
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

// Connects the predefined objects with the capsule that is open. Null, or the symbol it lacks.
const char *bind_predefined();

bool is_predefined(const Object *object);
// The object that has this handle of the library's; null: none has.
Object *known_object(void *real);

// How many requests there are.
size_t live_requests();

// Somebody is at it: for a signal handler, which must not wait for whom it has interrupted.
bool objects_are_busy();

// All objects but predefined ones and requests, one after the other: null after the last one.
// `from`: 0 at first. Nothing may be made or dropped meanwhile.
Object *next_object(size_t &from);

// In a restored copy: the library whose handles these were is not there. May be called in a signal
// handler while no other thread runs.
void forget_library_handles();
// An object has a handle again.
void bind_object(Object *object, void *real);

} // namespace cryo::mpi
