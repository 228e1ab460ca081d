// SPDX-License-Identifier: Apache-2.0
//
// The functions of libcr.h that request a checkpoint or a restart: they translate the arguments
// into a command line.
#include "libcr/edge.hpp"
#include "libcr/request.hpp"
#include "libcr/spawn.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

using cryo::libcr::agent;
using cryo::libcr::edge;

namespace {

// A command line; owns the text of its numbers only.
class Words
{
  public:
    Words &operator<<(const char *word)
    {
        if (count_ < most)
            list_[count_++] = word;
        return *this;
    }
    Words &operator<<(long number)
    {
        char *text = numbers_[used_++];
        snprintf(text, sizeof(numbers_[0]), "%ld", number);
        return *this << text;
    }
    const char *const *list() const { return list_; }

  private:
    static constexpr int most = 60;
    const char *list_[most + 1] = {};
    char numbers_[8][24];
    int count_ = 0;
    int used_ = 0;
};

bool is_open_for(int fd, int wanted)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && ((flags & O_ACCMODE) == wanted || (flags & O_ACCMODE) == O_RDWR);
}

pid_t parent_of(pid_t pid)
{
    char path[64];
    char text[512];
    snprintf(path, sizeof(path), "/proc/%d/stat", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return 0;
    text[n] = 0;
    const char *after = strrchr(text, ')');
    int parent = 0;
    return after != nullptr && sscanf(after, ") %*c %d", &parent) == 1 ? parent : 0;
}

bool has_self(cr_scope_t scope, pid_t target)
{
    switch (scope) {
    case CR_SCOPE_PROC:
        return target == getpid();
    case CR_SCOPE_PGRP:
        return target == getpgrp();
    case CR_SCOPE_SESS:
        return target == getsid(0);
    case CR_SCOPE_TREE:
        for (pid_t pid = getpid(); pid > 1; pid = parent_of(pid)) {
            if (pid == target)
                return true;
        }
        return false;
    }
    return false;
}

pid_t own_id(cr_scope_t scope)
{
    switch (scope) {
    case CR_SCOPE_PGRP:
        return getpgrp();
    case CR_SCOPE_SESS:
        return getsid(0);
    default:
        return getpid();
    }
}

struct DeltaFlag {
    unsigned flag;
    const char *option;
};
constexpr DeltaFlag delta_flags[] = {{CR_CHKPT_DELTA_AUTO, "--delta=auto"},
                                     {CR_CHKPT_DELTA_INCREMENTAL, "--delta=incremental"},
                                     {CR_CHKPT_DELTA_DIFFERENTIAL, "--delta=differential"}};
constexpr unsigned any_delta =
    CR_CHKPT_DELTA_AUTO | CR_CHKPT_DELTA_INCREMENTAL | CR_CHKPT_DELTA_DIFFERENTIAL;

constexpr unsigned checkpoint_flags = any_delta | CR_CHKPT_PROHIBIT_SELF | CR_CHKPT_PTRACED_ALLOW |
                                      CR_CHKPT_PTRACED_SKIP | CR_CHKPT_PTRACER_SKIP |
                                      CR_CHKPT_ASYNC_ERR | CR_CHKPT_DUMP_ALL;

bool is_valid(const cr_checkpoint_args_t &args)
{
    constexpr unsigned both = CR_CHKPT_PTRACED_ALLOW | CR_CHKPT_PTRACED_SKIP;
    const unsigned delta = args.cr_flags & any_delta;
    return args.cr_version >= 1 && args.cr_version <= CR_CHECKPOINT_ARGS_VERSION &&
           args.cr_scope >= CR_SCOPE_PROC && args.cr_scope <= CR_SCOPE_TREE &&
           args.cr_target >= 0 && args.cr_signal >= 0 && args.cr_signal <= SIGRTMAX &&
           (args.cr_flags & ~checkpoint_flags) == 0 && (args.cr_flags & both) != both &&
           (delta & (delta - 1)) == 0;
}

// The error that kill(2) would give for a session, whose leader may have ended.
int error_of_session(pid_t session)
{
    DIR *all = opendir("/proc");
    if (all == nullptr)
        return errno;
    int error = ESRCH;
    while (const dirent *entry = readdir(all)) {
        const pid_t pid = atoi(entry->d_name);
        if (pid <= 0 || getsid(pid) != session)
            continue;
        error = kill(pid, 0) == 0 ? 0 : errno == EPERM ? EPERM : error;
        if (error == 0)
            break;
    }
    closedir(all);
    return error;
}

bool is_in_callback()
{
    constexpr cr_client_id_t any{-1}; // CR_ID_CALLBACK, without its cast
    return cr_tryenter_cs(any) == 0;
}

// Errors that can be found before a command is started.
int error_of(const cr_checkpoint_args_t &args, pid_t target)
{
    if (args.cr_fd != CR_DEST_CWD && !is_open_for(args.cr_fd, O_WRONLY))
        return EBADF;
    if (args.cr_scope == CR_SCOPE_SESS) {
        if (const int error = error_of_session(target); error != 0)
            return error;
    } else if (kill(args.cr_scope == CR_SCOPE_PGRP ? -target : target, 0) != 0) {
        return errno;
    }
    if ((args.cr_flags & CR_CHKPT_PROHIBIT_SELF) != 0 && has_self(args.cr_scope, target))
        return EDEADLK;
    // The request would wait for the checkpoint that runs this callback, and that for the callback.
    if (has_self(args.cr_scope, target) && is_in_callback())
        return EBUSY;
    return 0;
}

// False if a preloaded agent is of an older release.
bool agent_can_wait()
{
    return agent().size >= offsetof(cryo::agent::Interface, await_round) + sizeof(void *);
}

void add_signal(Words &words, int signal)
{
    if (signal == SIGKILL)
        words << "--kill";
    else if (signal == SIGTERM)
        words << "--term";
    else if (signal == SIGSTOP)
        words << "--stop";
    else if (signal != 0)
        words << "-S" << signal;
}

void add_options(Words &words, const cr_checkpoint_args_t &args)
{
    const char *const scopes[] = {"--pid", "--pgid", "--sid", "--tree"};
    words << "cr_checkpoint"
          << "-q"
          << "--clobber" << scopes[args.cr_scope];
    add_signal(words, args.cr_signal);
    words << "--requester" << getpid();
    if (is_in_callback())
        words << "--in-callback";
    if (args.cr_timeout != 0)
        words << "--time" << args.cr_timeout;
    const struct {
        unsigned flag;
        const char *option;
    } options[] = {{CR_CHKPT_PROHIBIT_SELF, "--without-requester"},
                   {CR_CHKPT_PTRACED_ALLOW, "--ptraced-allow"},
                   {CR_CHKPT_PTRACED_SKIP, "--ptraced-skip"},
                   {CR_CHKPT_PTRACER_SKIP, "--ptracer-skip"},
                   {CR_CHKPT_DUMP_EXEC, "--save-exe"},
                   {CR_CHKPT_DUMP_PRIVATE, "--save-private"},
                   {CR_CHKPT_DUMP_SHARED, "--save-shared"}};
    for (const auto &one : options) {
        if ((args.cr_flags & one.flag) != 0)
            words << one.option;
    }
    for (const DeltaFlag &one : delta_flags) {
        if ((args.cr_flags & one.flag) != 0)
            words << one.option;
    }
}

} // namespace

int cryo::libcr::request_checkpoint(const cr_checkpoint_args_t &args, const char *name,
                                    cr_checkpoint_handle_t *handle)
{
    if (!is_valid(args))
        return -EINVAL;
    const pid_t target = args.cr_target != 0 ? args.cr_target : own_id(args.cr_scope);
    const int error = error_of(args, target);
    if (error != 0 && (args.cr_flags & CR_CHKPT_ASYNC_ERR) == 0)
        return -error;
    Words words;
    add_options(words, args);
    if (name != nullptr)
        words << "-f" << name;
    else if (args.cr_fd != CR_DEST_CWD && (args.cr_flags & any_delta) != 0)
        return -EINVAL; // no other images are beside it
    else if (args.cr_fd != CR_DEST_CWD)
        words << "--fd" << image_fd;
    words << target;
    const int file = args.cr_fd == CR_DEST_CWD ? -1 : args.cr_fd;
    const bool waits =
        error == 0 && args.cr_scope == CR_SCOPE_PROC && target == getpid() && agent_can_wait();
    const uint32_t rounds = waits ? agent().rounds() : 0;
    const int started = start_request({"cr_checkpoint", words.list(), file, false, error}, handle);
    if (waits && started == 0)
        agent().await_round(static_cast<int>(*handle), rounds);
    return started;
}

extern "C" {

int cri_init_checkpoint_args_t(cr_version_t version, cr_checkpoint_args_t *args)
{
    if (version < 1 || version > CR_CHECKPOINT_ARGS_VERSION)
        return edge(-EINVAL);
    *args = {};
    args->cr_version = version;
    args->cr_scope = CR_SCOPE_PROC;
    args->cr_fd = CR_DEST_CWD;
    return 0;
}

int cr_request_checkpoint(cr_checkpoint_args_t *args, cr_checkpoint_handle_t *handle)
{
    char name[PATH_MAX];
    // A regular file is replaced by name, when the image is complete; others are written to.
    const bool named = args->cr_fd != CR_DEST_CWD && cryo::libcr::name_of(args->cr_fd, name);
    return edge(cryo::libcr::request_checkpoint(*args, named ? name : nullptr, handle));
}

int cr_wait_checkpoint(cr_checkpoint_handle_t *handle, struct timeval *timeout)
{
    return edge(cryo::libcr::wait_request(*handle, timeout));
}

int cr_log_checkpoint(cr_checkpoint_handle_t *handle, unsigned int len, char *msg)
{
    return edge(cryo::libcr::log_request(*handle, len, msg));
}

int cr_reap_checkpoint(cr_checkpoint_handle_t *handle)
{
    return edge(cryo::libcr::reap_request(*handle));
}

int cr_poll_checkpoint_msg(cr_checkpoint_handle_t *handle, struct timeval *timeout, char **msg)
{
    int error = 0;
    const int result = cryo::libcr::poll_request(*handle, timeout, msg, &error);
    if (result < 0)
        errno = error;
    return result;
}

int cr_poll_checkpoint(cr_checkpoint_handle_t *handle, struct timeval *timeout)
{
    return cr_poll_checkpoint_msg(handle, timeout, nullptr);
}

int cri_init_restart_args_t(cr_version_t version, cr_restart_args_t *args)
{
    if (version < 1 || version > CR_RESTART_ARGS_VERSION)
        return edge(-EINVAL);
    *args = {};
    args->cr_version = version;
    args->cr_fd = -1;
    args->cr_flags = CR_RSTRT_RESTORE_PID;
    return 0;
}

int cr_wait_restart(cr_restart_handle_t *handle, struct timeval *timeout)
{
    return cr_wait_checkpoint(handle, timeout);
}

int cr_log_restart(cr_restart_handle_t *handle, unsigned int len, char *msg)
{
    return cr_log_checkpoint(handle, len, msg);
}

int cr_reap_restart(cr_restart_handle_t *handle)
{
    return cr_reap_checkpoint(handle);
}

int cr_poll_restart_msg(cr_restart_handle_t *handle, struct timeval *timeout, char **msg)
{
    return cr_poll_checkpoint_msg(handle, timeout, msg);
}

int cr_poll_restart(cr_restart_handle_t *handle, struct timeval *timeout)
{
    return cr_poll_checkpoint_msg(handle, timeout, nullptr);
}

} // extern "C"
