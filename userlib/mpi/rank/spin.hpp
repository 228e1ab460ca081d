// SPDX-License-Identifier: Apache-2.0
//
// Loops that wait. They run inside the capsule, so that waiting costs one crossing, and end when
// what they wait for has come, when there is an error, or when something has come from the tree:
//
//     spin::One wait{.request = place};
//     call(spin::wait_one, &wait);
//     if (wait.flag) ...
//
// RULE: called with the capsule's thread-local storage.
#pragma once

#include "mpi/wrap/stock.hpp"

namespace cryo::mpi::rank::spin {

struct One {
    MPI_Request *request;
    MPI_Status status;
    int flag;
    int error;
};
void wait_one(One *wait);

struct Receive {
    void *buffer;
    int count;
    MPI_Datatype type;
    int source;
    int tag;
    MPI_Comm comm;
    MPI_Request request; // null: the library has refused it, whatever a handler made of that
    One wait;            // flag is false, too, when the receive could not begin
};
void receive(Receive *receive);

struct Many {
    int count;
    MPI_Request *requests;
    MPI_Status *statuses; // of any: one
    int *indices;         // of some
    int index;            // of any
    int done;             // of some: how many, or MPI_UNDEFINED
    int flag;
    int error;
    bool once; // a test
};
void wait_all(Many *wait);
void wait_any(Many *wait);
void wait_some(Many *wait);

struct Probe {
    int source;
    int tag;
    MPI_Comm comm;
    MPI_Status status;
    int flag;
    int error;
};
void probe(Probe *probe);

} // namespace cryo::mpi::rank::spin
