// SPDX-License-Identifier: Apache-2.0
// What hydra, MPICH's launcher, leaves open in the ranks that it starts: its own pipes and sockets,
// which no rank needs and no image could hold. They are closed before the program begins.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace {

bool is_started_by_hydra()
{
    char path[64];
    char name[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", getppid());
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t bytes = read(fd, name, sizeof(name) - 1);
    close(fd);
    constexpr char hydra[] = "hydra_pmi_proxy";
    return bytes > 0 && strncmp(name, hydra, sizeof(hydra) - 1) == 0;
}

bool is_left_open(int fd, int needed)
{
    struct stat status;
    return fd > STDERR_FILENO && fd != needed && fstat(fd, &status) == 0 &&
           (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

[[gnu::constructor]] void close_what_is_left_open()
{
    const char *needed = getenv("PMI_FD"); // the rank's own way to the launcher
    if (!is_started_by_hydra())
        return;
    constexpr int most = 256; // of its first ranks' descriptors none is so high
    for (int fd = STDERR_FILENO + 1; fd < most; fd++) {
        if (is_left_open(fd, needed != nullptr ? atoi(needed) : -1))
            close(fd);
    }
}

} // namespace
