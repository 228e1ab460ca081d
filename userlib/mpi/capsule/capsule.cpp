// SPDX-License-Identifier: Apache-2.0
// RULE for this file: a capsule is opened in a restored copy before the interrupted code resumes,
// and that code may hold any lock of the C library, so nothing here may take one.
#include "mpi/capsule/capsule.hpp"
#include "mpi/capsule/arena.hpp"
#include "mpi/capsule/boundary.h"
#include "mpi/capsule/hooks.hpp"
#include "mpi/capsule/loader.hpp"
#include "mpi/capsule/program.hpp"
#include "mpi/capsule/refuse.hpp"
#include "mpi/capsule/sites.hpp"
#include "mpi/capsule/thread_state.hpp"
#include "mpi/capsule/threads.hpp"
#include "sys/own_variable.hpp"
#include "sys/raw.hpp"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <sys/auxv.h>

extern "C" {
const cryo_guest *cryo_capsule_start(void *entry, void *stack)
    __attribute__((visibility("hidden")));
void cryo_capsule_park(const cryo_guest *guest) __attribute__((visibility("hidden")));
long cryo_capsule_system_call(long number, const long *a) __attribute__((visibility("hidden")));
}

namespace cryo::capsule {

bool have_fsgsbase;

namespace {

const cryo_guest *guest;

// exit() inside the capsule runs the program's exit(), with the program's thread-local storage.
void exit_program(int status)
{
    if (way_back(current_fs()) != nullptr)
        call_home(static_cast<void (*)(int)>(&::exit), status);
}

cryo_host host = {
    .library = nullptr,
    .park = cryo_capsule_park,
    .exit = exit_program,
    .gives_up = gives_up,
    .system_call = cryo_capsule_system_call,
};

// Checks that the second libc's system calls were found and hooked, so that it is confined.
bool is_confined(unsigned long break_before, Refusal &why)
{
    constexpr struct {
        long number;
        const char *name;
        unsigned times;              // sites expected; the dynamic linker has its own copy
        bool is_cancellable = false; // a cancellation point: may use glibc's common function
    } needed[] = {
        {SYS_mmap, "mmap", 2},
        {SYS_munmap, "munmap", 2},
        {SYS_brk, "brk", 2},
        {SYS_mremap, "mremap", 1},
        {SYS_shmat, "shmat", 1},
        {SYS_openat, "openat", 2, true},
        {SYS_close, "close", 2, true},
        {SYS_socket, "socket", 1},
        {SYS_rt_sigaction, "sigaction", 1},
        {SYS_pipe2, "pipe", 1},
        {SYS_accept, "accept", 1, true},
        {SYS_epoll_create1, "epoll_create", 1},
    };
    // glibc 2.41 has two: one for threads that cannot be cancelled, one for the others. Its dynamic
    // linker has none.
    constexpr unsigned common_sites = 2;
    const bool has_common = sites_found(any_call) >= common_sites;
    for (const auto &call : needed) {
        const bool may_be_common = call.is_cancellable && has_common;
        if (sites_found(call.number) < (may_be_common ? call.times - 1 : call.times))
            return refuse(why,
                          "this C library makes the system call of %s() in a way that is not known "
                          "to Cryo, so the MPI library cannot be confined; run without Cryo",
                          call.name);
    }
    if (memory::complaint() != nullptr)
        return refuse(why, "%s", memory::complaint());
    if (static_cast<unsigned long>(sys::call(SYS_brk, 0)) != break_before)
        return refuse(why, "the MPI library moved the program's break; run without Cryo");
    return true;
}

void unmap_all()
{
    memory::release_outside();
    arena::release();
    descriptors::close_all();
    forget_sites();
    memory::reset();
    dispositions::reset();
    guest = nullptr;
}

bool wait_for_threads(Refusal &why)
{
    constexpr int patience = 10'000; // milliseconds
    const long self = sys::call(SYS_getpid);
    for (int waited = 0;; waited++) {
        int alive = 0;
        for (int i = 0;; i++) {
            const int tid = call(guest->thread_at, i);
            if (tid < 0)
                break;
            if (tid != 0 && !sys::failed(sys::call(SYS_tgkill, self, tid, 0)))
                alive = tid;
        }
        if (alive == 0)
            return true;
        if (waited == patience)
            return refuse(why, "thread %d of the MPI library does not end after MPI_Finalize",
                          alive);
        constexpr timespec millisecond = {.tv_sec = 0, .tv_nsec = 1'000'000};
        sys::call(SYS_nanosleep, &millisecond, nullptr);
    }
}

// The environment, with the variable of the taken-over descriptor set to its new number.
class Environment
{
  public:
    Environment(char *const *given, const char *descriptor) : seen_(given)
    {
        const char *value = descriptor != nullptr ? variable(given, descriptor) : nullptr;
        if (value == nullptr)
            return;
        size_t count = 0;
        while (given[count] != nullptr)
            count++;
        bytes_ = (count + 1) * sizeof(char *);
        changed_ = static_cast<char **>(keep(bytes_));
        if (changed_ == nullptr)
            return;
        const int taken = descriptors::take(atoi(value));
        note_launcher(taken);
        snprintf(text_, sizeof(text_), "%s=%d", descriptor, taken);
        const size_t name = strlen(descriptor) + 1;
        for (size_t i = 0; i < count; i++)
            changed_[i] = given[i] + name == value ? text_ : given[i];
        seen_ = changed_;
    }
    ~Environment()
    {
        if (changed_ != nullptr)
            unkeep(changed_, bytes_);
    }
    Environment(const Environment &) = delete;
    Environment &operator=(const Environment &) = delete;
    char *const *get() const { return seen_; }

  private:
    char *const *seen_;
    char **changed_ = nullptr;
    size_t bytes_ = 0;
    char text_[64];
};

} // namespace

bool refuse(Refusal &why, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why.text, sizeof(why.text), format, arguments);
    va_end(arguments);
    return false;
}

const char *variable(char *const *environment, const char *name)
{
    return sys::own_variable(environment, name);
}

bool open(const Options &options, Refusal &why)
{
    if (guest != nullptr)
        return refuse(why, "the MPI library is loaded already");
    const char *wanted = variable(options.environment, "CRYO_CAPSULE_ADDRESS");
    const unsigned long place =
        wanted != nullptr ? strtoul(wanted, nullptr, 0) : arena::usual_place;
    const char *path = find_program(options.environment, why);
    if (path == nullptr || !descriptors::begin(why) || !arena::reserve(place, why))
        return false;
    // Bit 1: the kernel lets programs use wrfsbase. The variable disables it for measurements and
    // tests.
    have_fsgsbase = (getauxval(AT_HWCAP2) & 2) != 0 &&
                    variable(options.environment, "CRYO_CAPSULE_NO_FSGSBASE") == nullptr;

    char argument[32];
    snprintf(argument, sizeof(argument), "%lx", reinterpret_cast<unsigned long>(&host));
    host.library = options.library;
    Start start;
    const Environment environment(options.environment, options.descriptor);
    bool done = load_program(path, argument, environment.get(), start, why);
    void *fs = nullptr;
    if (done) {
        const auto break_before = static_cast<unsigned long>(sys::call(SYS_brk, 0));
        ThreadState state;
        if (state.complete()) {
            guest = cryo_capsule_start(start.entry, start.stack);
            fs = current_fs();
            state.return_home();
            done = is_confined(break_before, why);
        } else {
            done = refuse(why, "this kernel does not tell a thread's clear-child-tid address "
                               "(CONFIG_CHECKPOINT_RESTORE); run without Cryo");
        }
    }
    if (done && guest->error != nullptr)
        done = refuse(why, "the MPI library cannot be loaded: %s", guest->error);
    if (!done) {
        unmap_all();
        return false;
    }
    threads::begin(guest, fs);
    return true;
}

bool is_open()
{
    return guest != nullptr;
}

void *symbol(const char *name)
{
    return call(guest->symbol, name);
}

void flush()
{
    call(guest->flush);
}

bool owns(const void *address)
{
    return arena::contains(address);
}

bool range(unsigned number, Range &range)
{
    if (!arena::is_reserved())
        return false;
    if (number > 0)
        return memory::outside(number - 1, range);
    range = {arena::start(), arena::end()};
    return true;
}

// The guest's function only reads its table, so no crossing is needed.
bool owns_thread(int tid)
{
    if (guest == nullptr)
        return false;
    for (int i = 0;; i++) {
        const int one = guest->thread_at(i);
        if (one == tid)
            return true;
        if (one < 0)
            return false;
    }
}

void forget()
{
    guest = nullptr;
    threads::forget();
    arena::forget();
    memory::forget();
    descriptors::forget();
    dispositions::forget();
    forget_sites();
}

bool discard(Refusal &why)
{
    if (!enter(why))
        return false;
    call(guest->end);
    if (!wait_for_threads(why))
        return false;
    threads::end();
    unmap_all();
    return true;
}

} // namespace cryo::capsule
