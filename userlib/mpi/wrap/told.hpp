// SPDX-License-Identifier: Apache-2.0
//
// State that a program sets in the library and cannot query: error classes, codes and strings, data
// representations, the buffer for buffered sends, generalized requests. It is recorded when it is
// set, and set again after a restart.
#pragma once

#include "mpi/capsule/capsule.hpp"
#include "mpi/stock/objects.hpp"
#include "mpi/stock/stock.hpp"

namespace cryo::mpi {

struct Representation {
    const char *name;
    MPI_Datarep_conversion_function *read;
    MPI_Datarep_conversion_function *write;
    MPI_Datarep_extent_function *extent;
    void *extra_state;
};

struct Generalized {
    Generalized *next;
    MPI_Grequest_query_function *query;
    MPI_Grequest_free_function *free;
    MPI_Grequest_cancel_function *cancel;
    void *extra_state;
    Object *request; // whose callbacks_are_c the Fortran library clears
    void *real;      // the library's request
    bool complete;   // the program has called MPI_Grequest_complete
};

// requests.cpp: with callbacks that call the program's functions.
int start_generalized(Generalized *record, MPI_Request *real);
int register_representation(Representation *record);

// told.cpp
void remember_generalized(Generalized *record);
void forget_generalized(const Generalized *record);
void remember_representation(Representation *record);
bool tell_again(capsule::Refusal &why); // in a restored copy

} // namespace cryo::mpi
