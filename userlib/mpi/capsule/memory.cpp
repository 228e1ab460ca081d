// SPDX-License-Identifier: Apache-2.0
#include "mpi/capsule/arena.hpp"
#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/hooks.hpp"
#include "mpi/capsule/lock.hpp"
#include "mpi/capsule/sites.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <cstdint>
#include <sys/mman.h>
#include <sys/shm.h>
#include <sys/stat.h>

namespace cryo::capsule::memory {

namespace {

// Mappings outside the arena at addresses the capsule asked for, and System V segments.
struct Block {
    uintptr_t start;
    size_t bytes;
};

class Blocks
{
  public:
    void add(uintptr_t start, size_t bytes)
    {
        Hold hold(lock_);
        for (Block &block : blocks_) {
            if (block.bytes == 0) {
                block = {start, bytes};
                return;
            }
        }
    }
    Block remove(uintptr_t start)
    {
        Hold hold(lock_);
        for (Block &block : blocks_) {
            if (block.bytes != 0 && block.start == start) {
                const Block removed = block;
                block = {};
                return removed;
            }
        }
        return {};
    }
    Block any()
    {
        Hold hold(lock_);
        for (const Block &block : blocks_) {
            if (block.bytes != 0)
                return block;
        }
        return {};
    }
    // The n-th block. Takes no lock, because the caller may be in a signal handler.
    Block at(unsigned number) const
    {
        for (const Block &block : blocks_) {
            if (block.bytes != 0 && number-- == 0)
                return block;
        }
        return {};
    }
    void forget()
    {
        lock_.forget();
        for (Block &block : blocks_)
            block = {};
    }

  private:
    Lock lock_;
    Block blocks_[256] = {};
};

Blocks elsewhere;
Blocks segments;
const char *what_is_wrong;

char *address(long value)
{
    return reinterpret_cast<char *>(value);
}

constexpr size_t huge_page = size_t{2} << 20;

size_t whole_huge_pages(size_t bytes)
{
    return (bytes + huge_page - 1) & ~(huge_page - 1);
}

arena::Zone zone_for(long flags, long fd)
{
    const bool private_file = fd >= 0 && (flags & MAP_ANONYMOUS) == 0 && (flags & MAP_PRIVATE) != 0;
    return private_file ? arena::Zone::Near : arena::Zone::Far;
}

// Hooks new code before anyone can run it. Only the part backed by the file is scanned.
void hook_new_code(long start, size_t bytes, long fd, long offset)
{
    struct stat status;
    if (sys::failed(sys::call(SYS_fstat, fd, &status)) || status.st_size <= offset)
        return;
    const auto in_file = static_cast<size_t>(status.st_size - offset);
    if (hook_sites(address(start), bytes < in_file ? bytes : in_file) < 0)
        what_is_wrong =
            "code of the MPI library could not be made writable to hook its system calls "
            "(a security policy may forbid it)";
}

long map_at(long start, const long *a, long flags)
{
    const long got = sys::call(SYS_mmap, start, a[1], a[2], flags, a[4], a[5]);
    if (!sys::failed(got) && (a[2] & PROT_EXEC) != 0 && (flags & MAP_ANONYMOUS) == 0)
        hook_new_code(got, static_cast<size_t>(a[1]), a[4], a[5]);
    return got;
}

} // namespace

const char *complaint()
{
    return what_is_wrong;
}

void reset()
{
    what_is_wrong = nullptr;
}

void release_outside()
{
    for (Block block = elsewhere.any(); block.bytes != 0; block = elsewhere.any()) {
        elsewhere.remove(block.start);
        sys::call(SYS_munmap, block.start, block.bytes);
    }
    for (Block block = segments.any(); block.bytes != 0; block = segments.any())
        segments.remove(block.start);
}

bool outside(unsigned number, Range &range)
{
    const Block block = elsewhere.at(number);
    range = {block.start, block.start + arena::whole_pages(block.bytes)};
    return block.bytes != 0;
}

void forget()
{
    elsewhere.forget();
    segments.forget();
    reset();
}

long map(const long *a)
{
    const long flags = a[3];
    const auto bytes = static_cast<size_t>(a[1]);
    if (bytes == 0)
        return -EINVAL;
    if ((flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) != 0) {
        if (arena::contains(address(a[0]))) {
            const bool was_free = arena::claim(address(a[0]), bytes);
            if ((flags & MAP_FIXED) == 0 && !was_free)
                return -EEXIST;
            return map_at(a[0], a, (flags & ~MAP_FIXED_NOREPLACE) | MAP_FIXED);
        }
        const long got = map_at(a[0], a, flags);
        if (!sys::failed(got))
            elsewhere.add(static_cast<uintptr_t>(got), bytes);
        return got;
    }
    if (a[0] != 0 && arena::claim(address(a[0]), bytes))
        return map_at(a[0], a, flags | MAP_FIXED);
    if (a[0] != 0 && !arena::contains(address(a[0]))) {
        const long got = map_at(a[0], a, flags | MAP_FIXED_NOREPLACE);
        if (!sys::failed(got) && got == a[0]) {
            elsewhere.add(static_cast<uintptr_t>(got), bytes);
            return got;
        }
        if (!sys::failed(got))
            sys::call(SYS_munmap, got, bytes);
    }
    // The kernel maps explicit huge pages (MAP_HUGETLB) whole, whatever length was requested.
    const bool set_aside = (flags & MAP_HUGETLB) != 0;
    const size_t taken = set_aside ? whole_huge_pages(bytes) : bytes;
    const size_t alignment = taken >= huge_page ? huge_page : arena::page;
    char *place = arena::take(taken, zone_for(flags, a[4]), alignment);
    if (place == nullptr)
        return -ENOMEM;
    const long got = map_at(sys::word(place), a, flags | MAP_FIXED);
    if (sys::failed(got))
        arena::give_back(place, taken);
    return got;
}

long unmap(const long *a)
{
    const auto bytes = static_cast<size_t>(a[1]);
    if (arena::contains(address(a[0]))) {
        arena::give_back(address(a[0]), bytes);
        return 0;
    }
    elsewhere.remove(static_cast<uintptr_t>(a[0]));
    return sys::call(SYS_munmap, a[0], a[1]);
}

// A mapping never grows in place, because what follows it is reserved: it moves instead.
long remap(const long *a)
{
    char *old = address(a[0]);
    const size_t before = arena::whole_pages(static_cast<size_t>(a[1]));
    const size_t after = arena::whole_pages(static_cast<size_t>(a[2]));
    if (!arena::contains(old) || (a[3] & MREMAP_FIXED) != 0 || before == 0)
        return sys::call(SYS_mremap, a[0], a[1], a[2], a[3], a[4]);
    if (after <= before) {
        if (after < before)
            arena::give_back(old + after, before - after);
        return a[0];
    }
    if ((a[3] & MREMAP_MAYMOVE) == 0)
        return -ENOMEM;
    char *place =
        arena::take(after, arena::Zone::Far, after >= huge_page ? huge_page : arena::page);
    if (place == nullptr)
        return -ENOMEM;
    const long got =
        sys::call(SYS_mremap, old, before, after, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (sys::failed(got))
        arena::give_back(place, after);
    else
        arena::give_back(old, before);
    return got;
}

long attach(const long *a)
{
    struct shmid_ds segment = {};
    const long error = sys::call(SYS_shmctl, a[0], IPC_STAT, &segment);
    if (a[1] != 0 || sys::failed(error))
        return sys::call(SYS_shmat, a[0], a[1], a[2]);
    // The segment may use huge pages, which IPC_STAT does not report.
    const size_t bytes = whole_huge_pages(segment.shm_segsz);
    char *place = arena::take(bytes, arena::Zone::Far, huge_page);
    if (place == nullptr)
        return -ENOMEM;
    const long got = sys::call(SYS_shmat, a[0], place, a[2] | SHM_REMAP);
    if (sys::failed(got))
        arena::give_back(place, bytes);
    else
        segments.add(static_cast<uintptr_t>(got), bytes);
    return got;
}

long detach(const long *a)
{
    const long result = sys::call(SYS_shmdt, a[0]);
    const Block segment = segments.remove(static_cast<uintptr_t>(a[0]));
    if (!sys::failed(result) && segment.bytes != 0)
        arena::give_back(address(a[0]), segment.bytes);
    return result;
}

} // namespace cryo::capsule::memory
