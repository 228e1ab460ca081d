// SPDX-License-Identifier: Apache-2.0
// Open MPI 4 and 5 have no functions with large counts.
#include "mpi/wrap/large_types.hpp"
#include "mpi/wrap/wrapper.hpp"

namespace cryo::mpi {

using capsule::call;

int envelope_of_type(MPI_Datatype real, TypeNote &note)
{
    return call(stock.Type_get_envelope, real, &note.integer_count, &note.address_count,
                &note.type_count, &note.combiner);
}

int contents_of_type(MPI_Datatype real, TypeNote &note, MPI_Datatype *parts)
{
    return call(stock.Type_get_contents, real, note.integer_count, note.address_count,
                note.type_count, note.integers, note.addresses, parts);
}

int make_large_type(const TypeNote & /*note*/, const MPI_Datatype * /*parts*/,
                    MPI_Datatype * /*made*/)
{
    return MPI_ERR_TYPE;
}

} // namespace cryo::mpi
