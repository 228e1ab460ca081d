// SPDX-License-Identifier: Apache-2.0
//
// Waiting loops. They run inside the capsule, so that a wait costs one crossing, and end when what
// they wait for has happened, on an error, or when messages have come from the tree:
//
//     spin::One wait{.request = place};
//     call(spin::wait_one, &wait);
//     if (wait.flag) ...
//
// RULE: called with the capsule's thread-local storage.
#pragma once

#include "mpi/stock/stock.hpp"

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
    MPI_Request request; // null: the library refused it, whatever an error handler returned
    One wait;            // flag is also false when the receive could not begin
};
void receive(Receive *receive);

struct Many {
    int count;
    MPI_Request *requests;
    MPI_Status *statuses; // wait_any: only one
    int *indices;         // from wait_some
    int index;            // from wait_any
    int done;             // from wait_some: how many, or MPI_UNDEFINED
    int flag;
    int error;
    bool once; // poll once: a test
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
