// SPDX-License-Identifier: Apache-2.0
#include "mpi/capsule/sites.hpp"
#include "mpi/capsule/arena.hpp"
#include "sys/raw.hpp"

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>

extern "C" void cryo_capsule_hook() __attribute__((visibility("hidden")));

namespace cryo::capsule {

namespace {

// Calls that must be confined to the arena, create descriptors, or would take program signals.
constexpr short hooked_calls[] = {
    SYS_mmap,          SYS_munmap,    SYS_brk,           SYS_mremap,       SYS_shmat,
    SYS_shmdt,         SYS_open,      SYS_openat,        SYS_creat,        SYS_close,
    SYS_socket,        SYS_accept,    SYS_accept4,       SYS_socketpair,   SYS_pipe,
    SYS_pipe2,         SYS_dup,       SYS_dup2,          SYS_dup3,         SYS_fcntl,
    SYS_epoll_create,  SYS_eventfd2,  SYS_epoll_create1, SYS_memfd_create, SYS_timerfd_create,
    SYS_inotify_init1, SYS_signalfd4, SYS_eventfd,       SYS_rt_sigaction,
};
constexpr size_t most_numbers = any_call + 1;

unsigned found[most_numbers];

// An instruction that loads the number, then ones that only set registers (usually none), then
// syscall. The first one is
//     mov $number, %eax          of a call that is hooked
//     mov 8(%rsp), %rax          any number: glibc 2.41 makes all its system calls that
//     mov %r11, 8(%rsp)          can be cancelled in two places, and one of these stands before
struct Site {
    long number = -1; // of a hooked call, or any_call; -1: not a site
    size_t between = 0;
    size_t bytes() const { return mov_bytes + between + syscall_bytes; }

    static constexpr size_t mov_bytes = 5;
    static constexpr size_t syscall_bytes = 2;
    static constexpr size_t most_between = 16;
};

// The length of an instruction that sets a register other than %eax from a constant or another
// register, and so can be moved to the springboard. 0: any other instruction.
size_t movable_instruction(const unsigned char *code)
{
    const bool has_rex = (code[0] & 0xf0) == 0x40;
    const unsigned rex = has_rex ? code[0] : 0;
    const unsigned char *op = code + (has_rex ? 1 : 0);
    const size_t prefix = has_rex ? 1 : 0;
    if ((op[0] & 0xf8) == 0xb8) { // mov $constant, register
        const unsigned target = (op[0] & 7U) | (rex & 1U) << 3;
        return target == 0 || (rex & 8U) != 0 ? 0 : prefix + 5;
    }
    const bool to_rm = op[0] == 0x89 || op[0] == 0x31; // mov, xor
    const bool to_reg = op[0] == 0x8b || op[0] == 0x33;
    if ((!to_rm && !to_reg) || (op[1] & 0xc0) != 0xc0)
        return 0;
    const unsigned reg = (op[1] >> 3 & 7U) | (rex & 4U) << 1;
    const unsigned rm = (op[1] & 7U) | (rex & 1U) << 3;
    return (to_rm ? rm : reg) == 0 ? 0 : prefix + 2;
}

// The number of a site that may begin here, or -1.
long number_at(const unsigned char *code)
{
    constexpr unsigned char load[] = {0x48, 0x8b, 0x44, 0x24};
    constexpr unsigned char store[] = {0x4c, 0x89, 0x5c, 0x24, 8, 0x0f, 0x05};
    if (memcmp(code, load, sizeof(load)) == 0 || memcmp(code, store, sizeof(store)) == 0)
        return any_call;
    if (code[0] != 0xb8 || code[3] != 0 || code[4] != 0)
        return -1;
    const long number = code[1] | code[2] << 8;
    return is_hooked(number) ? number : -1;
}

Site site_at(const unsigned char *code, size_t room)
{
    if (room < Site::mov_bytes + Site::most_between + Site::syscall_bytes)
        return {};
    const long number = number_at(code);
    if (number < 0)
        return {};
    const unsigned char *at = code + Site::mov_bytes;
    size_t between = 0;
    while (between <= Site::most_between) {
        if (at[between] == 0x0f && at[between + 1] == 0x05)
            return {number, between};
        const size_t length = movable_instruction(at + between);
        if (length == 0)
            return {};
        between += length;
    }
    return {};
}

// Searches for syscall instructions, which are rare, and checks whether one ends a site: a library
// has megabytes of other code, and all of it is scanned at every process start.
template <class Take>
void for_each_site(unsigned char *code, size_t bytes, const Take &take)
{
    constexpr unsigned char instruction[Site::syscall_bytes] = {0x0f, 0x05};
    constexpr size_t most_before = Site::mov_bytes + Site::most_between;
    for (size_t at = 0; at < bytes;) {
        const void *next = memmem(code + at, bytes - at, instruction, sizeof(instruction));
        if (next == nullptr)
            break;
        const auto end = static_cast<size_t>(static_cast<const unsigned char *>(next) - code);
        for (size_t i = end < most_before ? 0 : end - most_before; i + Site::mov_bytes <= end;
             i++) {
            const Site site = site_at(code + i, bytes - i);
            if (site.number >= 0 && i + Site::mov_bytes + site.between == end)
                take(code + i, site);
        }
        at = end + 1;
    }
}

constexpr size_t springboard_bytes = 32 + Site::most_between;

template <class... Bytes>
unsigned char *put(unsigned char *at, Bytes... bytes)
{
    ((*at++ = static_cast<unsigned char>(bytes)), ...);
    return at;
}

unsigned char *put_word(unsigned char *at, long value)
{
    return put(at, value, value >> 8, value >> 16, value >> 24);
}

// `hook` points to a word near the springboard that holds the hook's address.
void write_springboard(unsigned char *at, unsigned char *hook, const unsigned char *code,
                       const Site &site)
{
    for (size_t i = 0; i < Site::mov_bytes + site.between; i++)
        at = put(at, code[i]);
    at = put(at, 0x48, 0x8d, 0x64, 0x24, 0x80); // lea -128(%rsp), %rsp: over the red zone
    at = put(at, 0xff, 0x15);                   // call *hook(%rip)
    at = put_word(at, hook - (at + 4));
    at = put(at, 0x48, 0x8d, 0xa4, 0x24, 0x80, 0, 0, 0); // lea 128(%rsp), %rsp
    at = put(at, 0xe9);                                  // jmp past the site
    put_word(at, code + site.bytes() - (at + 4));
}

void write_jump(unsigned char *code, const Site &site, unsigned char *springboard)
{
    unsigned char *at = put(code, 0xe9);
    at = put_word(at, springboard - (at + 4));
    while (at < code + site.bytes())
        at = put(at, 0xcc); // int3: traps jumps to the old syscall
}

} // namespace

bool is_hooked(long number)
{
    for (const short hooked : hooked_calls) {
        if (hooked == number)
            return true;
    }
    return false;
}

unsigned sites_found(long number)
{
    return found[number];
}

void forget_sites()
{
    for (unsigned &count : found)
        count = 0;
}

long hook_sites(char *start, size_t bytes)
{
    auto *code = reinterpret_cast<unsigned char *>(start);
    size_t count = 0;
    for_each_site(code, bytes, [&](unsigned char *, const Site &) { count++; });
    if (count == 0)
        return 0;

    // A separate run of pages for each mapping: it is not written again once it is executable.
    const size_t room = arena::whole_pages(sizeof(void *) + count * springboard_bytes);
    auto *boards = reinterpret_cast<unsigned char *>(arena::take(room, arena::Zone::Near));
    if (boards == nullptr)
        return -ENOMEM;
    long error = sys::call(SYS_mmap, boards, room, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    if (sys::failed(error))
        return error;
    error = sys::call(SYS_mprotect, start, arena::whole_pages(bytes), PROT_READ | PROT_WRITE);
    if (sys::failed(error))
        return error;

    *reinterpret_cast<void (**)()>(boards) = cryo_capsule_hook;
    unsigned char *next = boards + sizeof(void *);
    for_each_site(code, bytes, [&](unsigned char *at, const Site &site) {
        write_springboard(next, boards, at, site);
        write_jump(at, site, next);
        next += springboard_bytes;
        __atomic_add_fetch(&found[site.number], 1, __ATOMIC_RELAXED);
    });

    error = sys::call(SYS_mprotect, start, arena::whole_pages(bytes), PROT_READ | PROT_EXEC);
    if (!sys::failed(error))
        error = sys::call(SYS_mprotect, boards, room, PROT_READ | PROT_EXEC);
    return sys::failed(error) ? error : static_cast<long>(count);
}

} // namespace cryo::capsule
