// SPDX-License-Identifier: Apache-2.0
//
// The keyvals of the program. A program holds their numbers, so after a restart each must get its
// number again.
//
//     remember_keyval({.number = *keyval, .kind = Kind::Comm, .record = record, .make = …, …});
#pragma once

#include "mpi/wrap/objects.hpp"

namespace cryo::mpi {

// Of MPICH's languages: they call the program's functions, in the manner of its language.
struct KeyvalProxies {
    // What a value is: one that was set in Fortran a number.
    static int type_of(bool is_number) { return is_number ? 1 : 0; }
    int (*copy)(void *function, int handle, int keyval, void *extra_state, int type, void *value,
                void **copy, int *flag);
    int (*remove)(void *function, int handle, int keyval, int type, void *value, void *extra_state);
};

// Functions return the library's error code. Values travel as words.
struct KeyvalOrigin {
    int number;
    Kind kind;
    void *record; // what the library hands to our functions for it
    KeyvalProxies *proxies = nullptr;
    int (*make)(const KeyvalOrigin &origin, int *number);
    int (*get)(Object *object, int number, void **value, int *flag);
    int (*set)(Object *object, int number, void *value);
};

// A number that is known already is that of a keyval that is gone.
void remember_keyval(const KeyvalOrigin &origin);
void set_keyval_proxies(int number, const KeyvalProxies &proxies);

} // namespace cryo::mpi
