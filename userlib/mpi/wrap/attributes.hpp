// SPDX-License-Identifier: Apache-2.0
//
// Values of predefined attributes, which the stock library keeps in its own memory.
//
//     copy_out_of_capsule(object, keyval, value);   // value: what MPI_Comm_get_attr filled in
#pragma once

#include "mpi/stock/objects.hpp"

namespace cryo::mpi {

void copy_out_of_capsule(Object *object, int keyval, void *place);

} // namespace cryo::mpi
