// SPDX-License-Identifier: Apache-2.0
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/fortran.hpp"
#include "mpi/wrap/life.hpp"
#include "mpi/wrap/windows.hpp"
#include "mpi/wrap/wrapper.hpp"
#include "sys/page.hpp"
#include "sys/raw.hpp"

#include <algorithm>
#include <cstring>
#include <sys/mman.h>

namespace cryo::mpi {

using capsule::call;
using rank::Window;

namespace {

constexpr uintptr_t page = sys::page_size;

// Maps the library's memory from `first` to `last` at a second address, which is ours.
bool map_again(Window &window, uintptr_t first, uintptr_t last)
{
    window.segment = first & ~(page - 1);
    const size_t bytes = (last - window.segment + page - 1) & ~(page - 1);
    if (window.alias == nullptr) {
        window.alias = static_cast<char *>(capsule::keep(bytes));
        window.alias_bytes = bytes;
    }
    // With an old length of 0 the same pages appear at a second address; they must be shared ones.
    return window.alias != nullptr && window.alias_bytes == bytes &&
           !sys::failed(sys::call(SYS_mremap, window.segment, 0, bytes,
                                  MREMAP_MAYMOVE | MREMAP_FIXED, window.alias));
}

bool is_alone(MPI_Comm comm)
{
    int size = 0;
    return call(stock.Comm_size, comm, &size) == MPI_SUCCESS && size == 1;
}

// The memory of a single process comes from malloc. Above the highest value of glibc's threshold it
// is a mapping of its own: a header in front of it says so, and how long it is.
constexpr MPI_Aint always_mapped = (MPI_Aint{32} << 20) + page;

// Replaces its pages by shared ones, at the same address.
bool share_mapping(void *base)
{
    struct Header {
        size_t before, size;
    } header;
    constexpr size_t is_mapped = 2;
    constexpr size_t flags = 7;
    auto *start = static_cast<char *>(base) - sizeof(header);
    memcpy(&header, start, sizeof(header));
    const size_t bytes = header.size & ~flags;
    return reinterpret_cast<uintptr_t>(start) % page == 0 && bytes % page == 0 &&
           (header.size & is_mapped) != 0 &&
           !sys::failed(sys::call(SYS_mmap, start, bytes, PROT_READ | PROT_WRITE,
                                  MAP_FIXED | MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)) &&
           memcpy(start, &header, sizeof(header)) != nullptr;
}

} // namespace

bool map_alias(Window &window)
{
    auto real = static_cast<MPI_Win>(window.object->real);
    uintptr_t first = UINTPTR_MAX;
    uintptr_t last = 0;
    for (int i = 0; i < window.peers; i++) {
        MPI_Aint size = 0;
        int unit = 0;
        void *base = nullptr;
        call(stock.Win_shared_query, real, i, &size, &unit, static_cast<void *>(&base));
        if (size <= 0)
            continue;
        const auto at = reinterpret_cast<uintptr_t>(base);
        first = std::min(first, at);
        last = std::max(last, at + static_cast<uintptr_t>(size));
    }
    return last == 0 || map_again(window, first, last); // 0: no member has any memory
}

bool map_own(Window &window, void *base)
{
    const auto first = reinterpret_cast<uintptr_t>(base);
    return map_again(window, first,
                     first + static_cast<uintptr_t>(std::max<MPI_Aint>(window.size, 1)));
}

bool starts_alike(const void *a, const void *b)
{
    return ((reinterpret_cast<uintptr_t>(a) ^ reinterpret_cast<uintptr_t>(b)) & (page - 1)) == 0;
}

void *in_alias(const Window &window, const void *real)
{
    return window.alias + (reinterpret_cast<uintptr_t>(real) - window.segment);
}

bool prefers_library_memory(MPI_Comm comm)
{
    if constexpr (!abi::allocates_shared_memory)
        return false;
    // A single process is no faster with it, but 4.1 may refuse it MPI_Win_create.
    return !is_alone(comm) || (life.provided == MPI_THREAD_MULTIPLE && !library_is_newer());
}

bool shares_memory(MPI_Comm comm)
{
    if (is_alone(comm))
        return true;
    MPI_Comm near = nullptr;
    int result = 0;
    int all = 0;
    int here = 0;
    if (call(stock.Comm_size, comm, &all) != MPI_SUCCESS ||
        call(stock.Comm_split_type, comm, MPI_COMM_TYPE_SHARED, 0,
             static_cast<MPI_Info>(object_of(MPI_INFO_NULL)->real), &near) != MPI_SUCCESS)
        return false;
    result = call(stock.Comm_size, near, &here);
    call(stock.Comm_free, &near);
    return result == MPI_SUCCESS && here == all;
}

int allocate_window(MPI_Aint size, int unit, MPI_Info info, MPI_Comm comm, void **base,
                    MPI_Win *win)
{
    const bool alone = is_alone(comm);
    const int result = call(stock.Win_allocate, alone ? std::max(size, always_mapped) : size, unit,
                            info, comm, static_cast<void *>(base), win);
    if (result == MPI_SUCCESS && alone && !share_mapping(*base))
        fatal("the MPI library has the memory of a window where it cannot be shared; it can be if "
              "GLIBC_TUNABLES leaves malloc as it is");
    return result;
}

void translate_window_attribute(const Object *object, int keyval, long *value)
{
    const auto *window = static_cast<const Window *>(object->state);
    if (window == nullptr)
        return;
    if (keyval == MPI_WIN_BASE && window->alias != nullptr)
        *value = static_cast<long>(reinterpret_cast<uintptr_t>(window->base));
    else if (keyval == MPI_WIN_SIZE)
        *value = window->size;
    else if (keyval == MPI_WIN_CREATE_FLAVOR)
        *value = window->flavor;
}

} // namespace cryo::mpi
