// SPDX-License-Identifier: Apache-2.0
//
// Programs and launchers of another family than the library that this one stands in for. Their
// handles mean something else, and their ranks do not find each other.
//
//     refuse_strangers();  // at the first call of MPI: ends a process that cannot go on
#pragma once

namespace cryo::mpi {

void refuse_strangers();

} // namespace cryo::mpi
