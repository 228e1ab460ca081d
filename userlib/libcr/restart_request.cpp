// SPDX-License-Identifier: Apache-2.0
// cr_request_restart(): the command line of a cr_restart that makes a child of the caller.
#include "libcr/edge.hpp"
#include "libcr/request.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <initializer_list>

using cryo::libcr::edge;
using cryo::libcr::start_request;

namespace {

constexpr unsigned known_flags =
    CR_RSTRT_ASYNC_ERR | CR_RSTRT_RESTORE_PID | CR_RSTRT_RESTORE_PGID | CR_RSTRT_RESTORE_SID;

bool is_valid(const cr_restart_args_t &args)
{
    return args.cr_version >= 1 && args.cr_version <= CR_RESTART_ARGS_VERSION &&
           args.cr_signal >= 0 && args.cr_signal <= SIGRTMAX &&
           (args.cr_flags & ~known_flags) == 0 &&
           (args.cr_relocate == nullptr || args.cr_relocate->count <= CR_MAX_RSTRT_RELOC);
}

// OLD=NEW, with \ before each = and \ in the paths.
char *relocation(const struct cr_rstrt_relocate_pair &pair)
{
    auto *text = static_cast<char *>(malloc(2 * (strlen(pair.oldpath) + strlen(pair.newpath)) + 2));
    if (text == nullptr)
        return nullptr;
    char *to = text;
    for (const char *path : {pair.oldpath, pair.newpath}) {
        if (to != text)
            *to++ = '=';
        for (; *path != 0; path++) {
            if (*path == '=' || *path == '\\')
                *to++ = '\\';
            *to++ = *path;
        }
    }
    *to = 0;
    return text;
}

} // namespace

extern "C" int cr_request_restart(cr_restart_args_t *args, cr_restart_handle_t *handle)
{
    if (!is_valid(*args))
        return edge(-EINVAL);
    const int flags = fcntl(args->cr_fd, F_GETFL);
    const int error = flags < 0 || (flags & O_ACCMODE) == O_WRONLY ? EBADF : 0;
    if (error != 0 && (args->cr_flags & CR_RSTRT_ASYNC_ERR) == 0)
        return edge(-error);

    char signal[16];
    char name[PATH_MAX];
    const char *words[16 + 2 * CR_MAX_RSTRT_RELOC] = {"cr_restart", "-q"};
    size_t count = 2;
    const unsigned ids = args->cr_flags;
    words[count++] = (ids & CR_RSTRT_RESTORE_PID) != 0 ? "--restore-pid" : "--no-restore-pid";
    if ((ids & CR_RSTRT_RESTORE_PGID) != 0)
        words[count++] = "--restore-pgid";
    words[count++] = (ids & CR_RSTRT_RESTORE_SID) != 0 ? "--restore-sid" : "--no-restore-sid";
    if (args->cr_signal != 0) {
        snprintf(signal, sizeof(signal), "%d", args->cr_signal);
        words[count++] = "-S";
        words[count++] = signal;
    }
    char *relocations[CR_MAX_RSTRT_RELOC] = {};
    const unsigned pairs = args->cr_relocate != nullptr ? args->cr_relocate->count : 0;
    bool complete = true;
    for (unsigned i = 0; i < pairs && complete; i++) {
        relocations[i] = relocation(args->cr_relocate->path[i]);
        complete = relocations[i] != nullptr;
        words[count++] = "--relocate";
        words[count++] = relocations[i];
    }
    if (cryo::libcr::name_of(args->cr_fd, name)) {
        words[count++] = name;
    } else {
        words[count++] = "--fd";
        words[count++] = "4";
    }
    const int result =
        complete ? start_request({"cr_restart", words, args->cr_fd, true, error}, handle) : -ENOMEM;
    for (char *one : relocations)
        free(one);
    return edge(result);
}
