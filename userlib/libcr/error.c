// SPDX-License-Identifier: Apache-2.0
//
// Descriptions of the CR_E* codes, for users.

#include "libcr.h"

#include <errno.h>
#include <string.h>

enum { FIRST = CR_MIN_ERRCODE + 1 };

static const char *const descriptions[] = {
    [CR_ETEMPFAIL - FIRST] = "Cannot be checkpointed now, try again later",
    [CR_EPERMFAIL - FIRST] = "Cannot be checkpointed any more, killed",
    [CR_ENOSUPPORT - FIRST] = "Not running under cr_run, so there is no libcr to ask",
    [CR_EVERSION - FIRST] = "Library, commands and kernel module are of different versions",
    [CR_EOMITTED - FIRST] = "Left out of the checkpoint at its own request",
    [CR_EBADARCH - FIRST] = "Image of another architecture",
    [CR_EPTRACED - FIRST] = "Traced by a debugger",
    [CR_EPTRACER - FIRST] = "Tracing another process",
    [CR_ERSTRTABRT - FIRST] = "Restart given up, restored processes killed",
    [CR_ERESTARTED - FIRST] = "Requested before a restart, which ended the request",
    [CR_ENOTCB - FIRST] = "Only possible in a checkpoint callback",
    [CR_ENOINIT - FIRST] = "Thread has not called cr_init()",
};

_Static_assert(sizeof(descriptions) / sizeof(*descriptions) == CR_MAX_ERRCODE - FIRST,
               "every CR_E* code has a description");

const char *cr_strerror(int errnum)
{
    if (errnum >= FIRST && errnum < CR_MAX_ERRCODE)
        return descriptions[errnum - FIRST];

    // strerror() may set errno, for an unknown number or when memory is short.
    int saved = errno;
    const char *text = strerror(errnum);
    errno = saved;
    return text;
}
