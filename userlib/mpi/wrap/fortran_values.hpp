// SPDX-License-Identifier: Apache-2.0
//
// Attributes set from Fortran, where their values are numbers, with a library that stores all
// attributes as words. C sees such an attribute as the address of the number; so it is the address
// of a record here, which is also the word that the library stores.
//
//     FortranValue *value = make_fortran_value(number);   // null: no memory
//     if (FortranValue *value = fortran_value(word)) ...  // null: it was set in C
//     drop_fortran_value(value);
//
// C may set that address itself as an attribute: as a pointer, which holds nothing and is not to be
// released. So what C sets is translated, and back for C, and for functions and readers in Fortran.
//
//     void *word = word_of_c(pointer);   // never a record's address
//     void *pointer = pointer_of_c(word);
//
// To be used inside an MPI function; no thread-local storage.
#pragma once

namespace cryo::mpi {

struct FortranValue {
    long number; // must be first: C reads it
    FortranValue *next;
    // Only addresses in here are used: word_of_c() of one in the first half.
    char second_half[16];
};

FortranValue *make_fortran_value(long number);
FortranValue *fortran_value(void *word);
void drop_fortran_value(FortranValue *value);
void *word_of_c(void *pointer);
void *pointer_of_c(void *word);

} // namespace cryo::mpi
