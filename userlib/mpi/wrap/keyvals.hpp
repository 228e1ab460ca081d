// SPDX-License-Identifier: Apache-2.0
//
// The program's keyvals. The program stores their numbers, so after a restart each must get its
// number again.
//
//     remember_keyval({.number = *keyval, .kind = Kind::Comm, .record = record, .make = …, …});
#pragma once

#include "mpi/stock/objects.hpp"

namespace cryo::mpi {

// Set by MPICH's language bindings: they call the program's functions in their language's manner.
struct KeyvalProxies {
    // The type of a value: one that was set in Fortran is a number.
    static int type_of(bool is_number) { return is_number ? 1 : 0; }
    int (*copy)(void *function, int handle, int keyval, void *extra_state, int type, void *value,
                void **copy, int *flag);
    int (*remove)(void *function, int handle, int keyval, int type, void *value, void *extra_state);
};

// The functions return the library's error code. Values are passed as words.
struct KeyvalOrigin {
    int number;
    Kind kind;
    void *record; // what the library passes to our functions
    KeyvalProxies *proxies = nullptr;
    int (*make)(const KeyvalOrigin &origin, int *number);
    int (*get)(Object *object, int number, void **value, int *flag);
    int (*set)(Object *object, int number, void *value);
};

// A keyval that is known by the number, or was in its place in the library's table, no longer
// exists and is replaced.
void remember_keyval(const KeyvalOrigin &origin);
void set_keyval_proxies(int number, const KeyvalProxies &proxies);

} // namespace cryo::mpi
