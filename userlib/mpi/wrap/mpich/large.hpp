// SPDX-License-Identifier: Apache-2.0
//
// Counts that an int cannot hold, for functions that take an int: one element of a larger type.
//
//     const Elements elements(count, type);
//     return PMPI_Send(buffer, elements.count(), elements.type(), ...);
#pragma once

#include "mpi/wrap/wrapper.hpp"

namespace cryo::mpi {

class Elements
{
  public:
    Elements(MPI_Count count, MPI_Datatype type);
    ~Elements();
    Elements(const Elements &) = delete;
    Elements &operator=(const Elements &) = delete;

    int count() const { return count_; }
    MPI_Datatype type() const { return type_; }

  private:
    int count_;
    MPI_Datatype type_;
    bool made_ = false;
};

} // namespace cryo::mpi
