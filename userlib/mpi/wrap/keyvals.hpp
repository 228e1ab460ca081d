// SPDX-License-Identifier: Apache-2.0
//
// The keyvals of the program. A program holds their numbers, so after a restart each must get its
// number again.
//
//     remember_keyval({.number = *keyval, .kind = Kind::Comm, .record = record, .make = …, …});
#pragma once

#include "mpi/wrap/objects.hpp"

namespace cryo::mpi {

// Functions return the library's error code. Values travel as words.
struct KeyvalOrigin {
    int number;
    Kind kind;
    void *record; // what the library hands to our functions for it
    int (*make)(const KeyvalOrigin &origin, int *number);
    int (*get)(Object *object, int number, void **value, int *flag);
    int (*set)(Object *object, int number, void *value);
};

// A number that is known already is that of a keyval that is gone.
void remember_keyval(const KeyvalOrigin &origin);

} // namespace cryo::mpi
