// SPDX-License-Identifier: Apache-2.0
#include "restore/enter.hpp"

#include "restore/restorer/restorer.hpp"
#include "sys/raw.hpp"
#include "sys/rseq_area.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

extern "C" {
extern const char cryo_restorer_begin[];
extern const char cryo_restorer_end[];
}

namespace cryo::restore {

namespace {

constexpr uint64_t page = 4096;
constexpr uint64_t search_start = 0x200000000000; // far from where Linux puts anything by itself
constexpr uint64_t search_end = 0x7ff000000000;

uint64_t round_up(uint64_t n)
{
    return (n + page - 1) & ~(page - 1);
}

[[noreturn]] void give_up(const Header *plan, const char *what, int error)
{
    // cr_restart reads this; the text goes to the standard error that both share.
    const Failure failure = {~0U, error, 0};
    if (plan != nullptr && write(plan->status_fd, &failure, sizeof(failure)) < 0)
        _exit(127);
    dprintf(STDERR_FILENO, "cryo: %s: %s\n", what, strerror(error));
    _exit(127);
}

// An area of `size` bytes that is free here and will be free in the restored process.
uint64_t find_area(const Header *plan, uint64_t size)
{
    const auto *avoid =
        reinterpret_cast<const Range *>(reinterpret_cast<const char *>(plan) + plan->avoid);
    for (uint64_t at = search_start; at + size < search_end;) {
        uint64_t next = 0;
        for (uint64_t i = 0; i < plan->avoid_count; i++) {
            if (avoid[i].start < at + size && at < avoid[i].end && avoid[i].end > next)
                next = avoid[i].end;
        }
        if (next == 0) {
            const void *got = mmap(reinterpret_cast<void *>(at), size, PROT_READ | PROT_WRITE,
                                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
            if (got == reinterpret_cast<void *>(at))
                return at;
            next = at + size;
        }
        at = round_up(next);
    }
    give_up(plan, "no room for the restorer between the saved and the present memory", ENOMEM);
}

void drop_rseq()
{
    const sys::RseqArea rseq =
        sys::rseq_area(reinterpret_cast<uint64_t>(__builtin_thread_pointer()));
    if (rseq.address != 0)
        sys::call(SYS_rseq, rseq.address, rseq.size, RSEQ_FLAG_UNREGISTER, RSEQ_SIG);
}

} // namespace

void enter(int plan_fd)
{
    struct stat status;
    if (fstat(plan_fd, &status) != 0)
        give_up(nullptr, "the restart plan is not there", errno);
    const auto size = static_cast<uint64_t>(status.st_size);
    void *seen = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, plan_fd, 0);
    if (seen == MAP_FAILED || size < sizeof(Header))
        give_up(nullptr, "the restart plan cannot be read", errno);
    const auto *plan = static_cast<const Header *>(seen);
    if (plan->magic != plan_magic || plan->size != size)
        give_up(nullptr, "the restart plan is of another release", EPROTO);

    const auto code_size = static_cast<uint64_t>(cryo_restorer_end - cryo_restorer_begin);
    const uint64_t code_at = round_up(size);
    const uint64_t scratch_at = code_at + round_up(code_size);
    const uint64_t stacks_at = scratch_at + round_up(scratch_size);
    const uint64_t area_size = stacks_at + plan->thread_count * stack_size;
    const uint64_t area = find_area(plan, area_size);

    memcpy(reinterpret_cast<void *>(area), plan, size);
    memcpy(reinterpret_cast<void *>(area + code_at), cryo_restorer_begin, code_size);
    if (mprotect(reinterpret_cast<void *>(area + code_at), round_up(code_size),
                 PROT_READ | PROT_EXEC) != 0)
        give_up(plan, "the restorer may not be made executable", errno);

    // From here on nothing of this process's libc is used: no signal may come, and the kernel must
    // forget the addresses that are about to disappear.
    const uint64_t all = ~0UL; // sigfillset would leave out glibc's own two
    sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, sizeof(all));
    drop_rseq();
    sys::call(SYS_set_robust_list, nullptr, 24);
    sys::call(SYS_set_tid_address, nullptr);
    const uint64_t stack_top = scratch_at + area + round_up(scratch_size);
    asm volatile("movq %[stack], %%rsp\n\t"
                 "xorl %%ebp, %%ebp\n\t"
                 "call *%[entry]\n\t"
                 "hlt"
                 :
                 : [stack] "r"(stack_top), [entry] "r"(area + code_at), "D"(area), "S"(area),
                   "d"(area_size), "c"(area + scratch_at)
                 : "memory");
    __builtin_unreachable();
}

} // namespace cryo::restore
