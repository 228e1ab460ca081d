// SPDX-License-Identifier: Apache-2.0
// Datatypes created by functions with large counts: how the library describes them, and how they
// are recreated from that.
#include "mpi/wrap/large_types.hpp"
#include "mpi/wrap/wrapper.hpp"

namespace cryo::mpi {

using capsule::call;

static_assert(sizeof(MPI_Count) == sizeof(long long));

namespace {

const MPI_Count *counts_of(const TypeNote &note)
{
    return reinterpret_cast<const MPI_Count *>(note.larges);
}

} // namespace

int envelope_of_type(MPI_Datatype real, TypeNote &note)
{
    MPI_Count counts[4] = {};
    const int result = call(stock.Type_get_envelope_c, real, &counts[0], &counts[1], &counts[2],
                            &counts[3], &note.combiner);
    note.integer_count = static_cast<int>(counts[0]);
    note.address_count = static_cast<int>(counts[1]);
    note.large_count = static_cast<int>(counts[2]);
    note.type_count = static_cast<int>(counts[3]);
    return result;
}

int contents_of_type(MPI_Datatype real, TypeNote &note, MPI_Datatype *parts)
{
    return call(stock.Type_get_contents_c, real, MPI_Count{note.integer_count},
                MPI_Count{note.address_count}, MPI_Count{note.large_count},
                MPI_Count{note.type_count}, note.integers, note.addresses,
                reinterpret_cast<MPI_Count *>(note.larges), parts);
}

int make_large_type(const TypeNote &note, const MPI_Datatype *parts, MPI_Datatype *made)
{
    const MPI_Count *c = counts_of(note);
    const int *n = note.integers;
    MPI_Datatype first = note.type_count > 0 ? parts[0] : nullptr;
    switch (note.combiner) {
    case MPI_COMBINER_CONTIGUOUS:
        return call(stock.Type_contiguous_c, c[0], first, made);
    case MPI_COMBINER_VECTOR:
        return call(stock.Type_vector_c, c[0], c[1], c[2], first, made);
    case MPI_COMBINER_HVECTOR:
        return call(stock.Type_create_hvector_c, c[0], c[1], c[2], first, made);
    case MPI_COMBINER_INDEXED:
        return call(stock.Type_indexed_c, c[0], c + 1, c + 1 + c[0], first, made);
    case MPI_COMBINER_HINDEXED:
        return call(stock.Type_create_hindexed_c, c[0], c + 1, c + 1 + c[0], first, made);
    case MPI_COMBINER_INDEXED_BLOCK:
        return call(stock.Type_create_indexed_block_c, c[0], c[1], c + 2, first, made);
    case MPI_COMBINER_HINDEXED_BLOCK:
        return call(stock.Type_create_hindexed_block_c, c[0], c[1], c + 2, first, made);
    case MPI_COMBINER_STRUCT:
        return call(stock.Type_create_struct_c, c[0], c + 1, c + 1 + c[0], parts, made);
    case MPI_COMBINER_SUBARRAY: {
        const int d = n[0];
        return call(stock.Type_create_subarray_c, d, c, c + d, c + 2 * d, n[1], first, made);
    }
    case MPI_COMBINER_DARRAY: {
        const int d = n[2];
        return call(stock.Type_create_darray_c, n[0], n[1], d, c, n + 3, n + 3 + d, n + 3 + 2 * d,
                    n[3 + 3 * d], first, made);
    }
    case MPI_COMBINER_RESIZED:
        return call(stock.Type_create_resized_c, first, c[0], c[1], made);
    default:
        return MPI_ERR_TYPE;
    }
}

} // namespace cryo::mpi
