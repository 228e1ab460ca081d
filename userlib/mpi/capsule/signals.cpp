// SPDX-License-Identifier: Apache-2.0
// A signal handler of the program that interrupts a thread inside the capsule must run with the
// program's thread-local storage. So the kernel is given a wrapper, which calls the program's
// handler; queries of the disposition return the program's own.
#include "mpi/capsule/capsule.hpp"

#include <atomic>
#include <cerrno>
#include <csignal>
#include <dlfcn.h>

namespace cryo::capsule {

namespace {

using Handler = void (*)(int);
using LongHandler = void (*)(int, siginfo_t *, void *);
using SetAction = int (*)(int, const struct sigaction *, struct sigaction *);
using SetHandler = Handler (*)(int, Handler);

std::atomic<Handler> handlers[NSIG];
std::atomic<bool> wants_info[NSIG];

// RULE: called with either world's thread-local storage.
void on_signal(int number, siginfo_t *info, void *context)
{
    const auto handler =
        reinterpret_cast<LongHandler>(reinterpret_cast<void *>(handlers[number].load()));
    void *fs = current_fs();
    if (owns(fs) && way_back(fs) != nullptr)
        call_home(handler, number, info, context);
    else
        handler(number, info, context);
}

Handler ours()
{
    return reinterpret_cast<Handler>(reinterpret_cast<void *>(on_signal));
}

bool is_function(Handler handler)
{
    return handler != SIG_DFL && handler != SIG_IGN && handler != SIG_ERR && handler != SIG_HOLD;
}

bool is_signal(int number)
{
    return number > 0 && number < NSIG;
}

template <class Function>
Function next(const char *name)
{
    return reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
}

Handler set_handler(SetHandler set, int number, Handler handler)
{
    if (!is_signal(number) || set == nullptr) {
        errno = EINVAL;
        return SIG_ERR;
    }
    const Handler before = handlers[number];
    if (is_function(handler))
        handlers[number] = handler;
    const Handler old = set(number, is_function(handler) ? ours() : handler);
    if (old == SIG_ERR)
        handlers[number] = before;
    else
        wants_info[number] = false;
    return old == ours() ? before : old;
}

} // namespace

} // namespace cryo::capsule

using namespace cryo::capsule;

#define EXPORTED extern "C" [[gnu::visibility("default")]]

EXPORTED int sigaction(int number, const struct sigaction *wanted, struct sigaction *old) noexcept
{
    static const auto set = next<SetAction>("sigaction");
    if (!is_signal(number))
        return set(number, wanted, old);
    const Handler before = handlers[number];
    const bool info_before = wants_info[number];
    struct sigaction wrapped;
    if (wanted != nullptr && is_function(wanted->sa_handler)) {
        handlers[number] = wanted->sa_handler;
        wants_info[number] = (wanted->sa_flags & SA_SIGINFO) != 0;
        wrapped = *wanted;
        wrapped.sa_sigaction = on_signal;
        wrapped.sa_flags |= SA_SIGINFO;
        wanted = &wrapped;
    }
    struct sigaction found;
    const int result = set(number, wanted, &found);
    if (result != 0) {
        handlers[number] = before;
        wants_info[number] = info_before;
        return result;
    }
    if (found.sa_sigaction == on_signal) {
        found.sa_handler = before;
        if (!info_before)
            found.sa_flags &= ~SA_SIGINFO;
    }
    if (old != nullptr)
        *old = found;
    return 0;
}

EXPORTED Handler signal(int number, Handler handler) noexcept
{
    static const auto set = next<SetHandler>("signal");
    return set_handler(set, number, handler);
}

EXPORTED Handler bsd_signal(int number, Handler handler) noexcept
{
    static const auto set = next<SetHandler>("bsd_signal");
    return set_handler(set, number, handler);
}

EXPORTED Handler sysv_signal(int number, Handler handler) noexcept
{
    static const auto set = next<SetHandler>("sysv_signal");
    return set_handler(set, number, handler);
}

EXPORTED Handler __sysv_signal(int number, Handler handler) noexcept
{
    static const auto set = next<SetHandler>("__sysv_signal");
    return set_handler(set, number, handler);
}

EXPORTED Handler sigset(int number, Handler handler) noexcept
{
    static const auto set = next<SetHandler>("sigset");
    return set_handler(set, number, handler);
}
