// SPDX-License-Identifier: Apache-2.0
//
// Attributes that were set in Fortran, where their values are numbers, with a library whose
// attributes are all words. In C such an attribute is the address of the number; so it is that of a
// record here, which is also what the library has.
//
//     FortranValue *value = make_fortran_value(number);   // null: no memory
//     if (FortranValue *value = fortran_value(word)) ...  // null: the word is one of C's
//     drop_fortran_value(value);
//
// In an MPI function; no thread-local storage.
#pragma once

namespace cryo::mpi {

struct FortranValue {
    long number; // first: C reads it
    FortranValue *next;
};

FortranValue *make_fortran_value(long number);
FortranValue *fortran_value(void *word);
void drop_fortran_value(FortranValue *value);

} // namespace cryo::mpi
