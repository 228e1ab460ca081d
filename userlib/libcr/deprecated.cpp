// SPDX-License-Identifier: Apache-2.0
// The calls of BLCR's first releases: they checkpoint this process, and wait for the result.
#include "image/format.hpp"
#include "libcr/edge.hpp"
#include "libcr/request.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

// True if there is an image; in the restored copy, too. `name`: of the file that it replaces, which
// cannot be opened for writing.
bool save_self(int fd, const char *name = nullptr)
{
    if (cr_init() < 0)
        return false;
    cr_checkpoint_args_t args;
    cr_checkpoint_handle_t handle = 0;
    cri_init_checkpoint_args_t(CR_CHECKPOINT_ARGS_VERSION, &args);
    args.cr_fd = fd;
    const bool asked = name != nullptr ? cryo::libcr::request_checkpoint(args, name, &handle) == 0
                                       : cr_request_checkpoint(&args, &handle) == 0;
    if (!asked)
        return false;
    int result;
    do {
        result = cr_poll_checkpoint(&handle, nullptr);
    } while (result == CR_POLL_CHKPT_ERR_PRE && errno == EINTR);
    return result > 0 || errno == CR_ERESTARTED;
}

// The image would have taken its name.
bool is_still_empty(int fd, const char *filename)
{
    struct stat opened;
    struct stat named;
    return fstat(fd, &opened) == 0 && opened.st_size == 0 && lstat(filename, &named) == 0 &&
           named.st_ino == opened.st_ino && named.st_dev == opened.st_dev;
}

// Images that cr_checkpoint writes are read-only, and replaced all the same: an earlier one is no
// reason to refuse the next. Another read-only file is.
bool name_earlier_image(const char *filename, char (&name)[PATH_MAX])
{
    uint8_t magic[sizeof(cryo::image::kHeaderMagic)];
    const int fd = open(filename, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const bool found = fd >= 0 && cryo::libcr::name_of(fd, name) &&
                       pread(fd, magic, sizeof(magic), 0) == sizeof(magic) &&
                       memcmp(magic, cryo::image::kHeaderMagic, sizeof(magic)) == 0;
    if (fd >= 0)
        close(fd);
    return found;
}

void save_over(const char *filename, int error)
{
    char name[PATH_MAX];
    if (error == EACCES && name_earlier_image(filename, name))
        save_self(CR_DEST_CWD, name);
    else // the caller is told nothing
        dprintf(STDERR_FILENO,
                "cr_request_file: %s: %s; no checkpoint was taken, give another name\n", filename,
                strerror(error));
}

} // namespace

extern "C" {

void cr_request(void)
{
    save_self(CR_DEST_CWD);
}

// A file that has a name keeps its contents, perhaps an earlier image, until the new image replaces
// it. A file without a name is written to.
void cr_request_file(const char *filename)
{
    char name[PATH_MAX];
    int fd = open(filename, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    const bool is_new = fd >= 0;
    if (!is_new)
        fd = open(filename, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0) {
        save_over(filename, errno);
        return;
    }
    const bool can_begin =
        cryo::libcr::name_of(fd, name) || ftruncate(fd, 0) == 0 || errno == EINVAL; // a FIFO
    if (can_begin && !save_self(fd) && is_new && is_still_empty(fd, filename))
        unlink(filename);
    close(fd);
}

void cr_request_fd(int fd)
{
    save_self(fd);
}

} // extern "C"
