// SPDX-License-Identifier: Apache-2.0
// Memory that MPI gives to the program is Cryo's, never the capsule's: it survives when the library
// is replaced.
#include "mpi/rank/heard.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/callback.hpp"
#include "mpi/wrap/windows.hpp"
#include "mpi/wrap/wrapper.hpp"
#include "sys/page.hpp"

#include <cstdint>

namespace cryo::mpi {

namespace {

constexpr size_t page = sys::page_size;

// Precedes the memory of MPI_Alloc_mem, in a page of its own so that the memory is page-aligned.
struct Header {
    size_t bytes; // including the header's page
};

capsule::Lock records_lock;
char *records;
size_t records_left;

} // namespace

void *make_record(size_t bytes)
{
    constexpr size_t block = 64 * 1024;
    bytes = (bytes + 15) & ~size_t{15};
    capsule::Hold hold(records_lock);
    if (bytes > records_left) {
        records = static_cast<char *>(capsule::keep(block));
        records_left = block;
    }
    char *record = records;
    records += bytes;
    records_left -= bytes;
    return record;
}

int no_room(MPI_Comm comm, MPI_Aint bytes)
{
    say("no memory for %lld bytes that MPI_Alloc_mem or a window is to have; under Cryo all of "
        "them share %zu GiB of addresses in a process",
        static_cast<long long>(bytes), capsule::kept_bytes >> 30);
    return tell_error(comm, MPI_ERR_NO_MEM);
}

} // namespace cryo::mpi

using namespace cryo::mpi;
using namespace cryo;

EXPORTED int PMPI_Alloc_mem(MPI_Aint size, MPI_Info /*info*/, void *place)
{
    const Inside inside;
    if (size < 0 || place == nullptr)
        return tell_error(MPI_COMM_WORLD, MPI_ERR_ARG);
    const size_t bytes = static_cast<size_t>(size) + page;
    auto *header = static_cast<Header *>(capsule::keep(bytes));
    if (header == nullptr)
        return no_room(MPI_COMM_WORLD, size);
    header->bytes = bytes;
    *static_cast<void **>(place) = size == 0 ? nullptr : reinterpret_cast<char *>(header) + page;
    if (size == 0)
        capsule::unkeep(header, bytes);
    return MPI_SUCCESS;
}
ALIAS(MPI_Alloc_mem, PMPI_Alloc_mem)

EXPORTED int PMPI_Free_mem(void *base)
{
    const Inside inside;
    if (base != nullptr) {
        auto *header = reinterpret_cast<Header *>(static_cast<char *>(base) - page);
        capsule::unkeep(header, header->bytes);
    }
    return MPI_SUCCESS;
}
ALIAS(MPI_Free_mem, PMPI_Free_mem)
