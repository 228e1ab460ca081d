// SPDX-License-Identifier: Apache-2.0
#include "restorer/enter.hpp"

#include "restorer/restorer.hpp"
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

[[noreturn]] void give_up(const Header *plan, const char *what, int error)
{
    // cr_restart reads this; the text goes to the standard error that both share.
    const Failure failure = {~0U, error, 0};
    if (plan != nullptr && write(plan->status_fd, &failure, sizeof(failure)) < 0)
        _exit(127);
    dprintf(STDERR_FILENO, "cryo: %s: %s\n", what, strerror(error));
    _exit(127);
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
    const AreaLayout layout = lay_out(*plan, code_size);
    const uint64_t area = map_area(plan, layout.size);
    if (area == 0)
        give_up(plan, "no room for the restorer between the saved and the present memory", ENOMEM);

    memcpy(reinterpret_cast<void *>(area), plan, size);
    memcpy(reinterpret_cast<void *>(area + layout.code_at), cryo_restorer_begin, code_size);
    if (mprotect(reinterpret_cast<void *>(area + layout.code_at), round_up(code_size),
                 PROT_READ | PROT_EXEC) != 0)
        give_up(plan, "the restorer may not be made executable", errno);

    // From here on nothing of this process's libc is used: no signal may come, and the kernel must
    // forget the addresses that are about to disappear.
    const uint64_t all = ~0UL; // sigfillset would leave out glibc's own two
    sys::call(SYS_rt_sigprocmask, SIG_SETMASK, &all, nullptr, sizeof(all));
    drop_rseq();
    sys::call(SYS_set_robust_list, nullptr, 24);
    sys::call(SYS_set_tid_address, nullptr);
    enter_area(area, layout);
}

} // namespace cryo::restore
