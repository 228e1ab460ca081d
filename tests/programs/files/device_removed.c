// SPDX-License-Identifier: Apache-2.0
// A device whose node has been removed, open twice: what it does, its number, owner and mode.
#include "probe.h"

#include <sys/sysmacros.h>

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    const char *path = probe_path("zero");
    PROBE_TRY(mknod(path, S_IFCHR | 0600, makedev(1, 5)));
    const int fd = (int)PROBE_TRY(open(path, O_RDWR));
    const int again = (int)PROBE_TRY(open(path, O_WRONLY | O_APPEND));
    PROBE_TRY(fchown(fd, 12340, 12350));
    PROBE_TRY(fchmod(fd, 0640));
    PROBE_TRY(unlink(path));
    struct stat before, now, other;
    PROBE_TRY(fstat(fd, &before));
    do {
        probe_ready();
        PROBE_SABOTAGE("device", dup2(PROBE_TRY(open("/dev/null", O_RDWR)), fd));
        PROBE_SABOTAGE("mode", PROBE_TRY(fchmod(fd, 0600)));
        PROBE_SABOTAGE("same", dup2(PROBE_TRY(open("/dev/zero", O_WRONLY | O_APPEND)), again));
        char byte = 1;
        probe_equal("bytes of the device", 1, read(fd, &byte, 1));
        probe_equal("byte of the device", 0, byte);
        PROBE_TRY(fstat(fd, &now));
        PROBE_TRY(fstat(again, &other));
        probe_equal("number of the device", (long long)before.st_rdev, (long long)now.st_rdev);
        probe_equal("mode of its node", before.st_mode, now.st_mode);
        probe_equal("owner of its node", before.st_uid, now.st_uid);
        probe_equal("group of its node", before.st_gid, now.st_gid);
        probe_equal("names of its node", 0, (long long)now.st_nlink);
        probe_equal("same node", (long long)now.st_ino, (long long)other.st_ino);
        probe_equal("access", O_WRONLY | O_APPEND, fcntl(again, F_GETFL) & (O_ACCMODE | O_APPEND));
        probe_equal("file in its place", -1, access(path, F_OK));
    } while (probe_more());
    return probe_pass();
}
