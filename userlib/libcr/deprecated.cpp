// SPDX-License-Identifier: Apache-2.0
// The calls of BLCR's first releases: they checkpoint this process, and wait for the result.
#include "libcr/edge.hpp"

#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

namespace {

void save_self(int fd)
{
    if (cr_init() < 0)
        return;
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle = 0;
    cri_init_checkpoint_args_t(CR_CHECKPOINT_ARGS_VERSION, &args);
    args.cr_fd = fd;
    if (cr_request_checkpoint(&args, &handle) != 0)
        return;
    while (cr_poll_checkpoint(&handle, nullptr) == CR_POLL_CHKPT_ERR_PRE && errno == EINTR)
        ;
}

} // namespace

extern "C" {

void cr_request(void)
{
    save_self(CR_DEST_CWD);
}

void cr_request_file(const char *filename)
{
    const int fd = open(filename, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0)
        return;
    save_self(fd);
    close(fd);
}

void cr_request_fd(int fd)
{
    save_self(fd);
}

} // extern "C"
