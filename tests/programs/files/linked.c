// SPDX-License-Identifier: Apache-2.0
// A file that was opened and mapped by a name since removed, and has another; one whose name was
// removed and is back; and one opened by O_TMPFILE.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    int fd = PROBE_TRY(open(probe_path("one"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(link(probe_path("one"), probe_path("two")));
    PROBE_TRY(unlink(probe_path("one")));
    PROBE_TRY(ftruncate(fd, 6));
    char *mapping = PROBE_MAP(mmap(NULL, 6, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0));
    int again = PROBE_TRY(open(probe_path("again"), O_CREAT | O_RDWR, 0600));
    PROBE_TRY(write(again, "before", 6));
    char *back = PROBE_MAP(mmap(NULL, 6, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0));
    PROBE_TRY(link(probe_path("again"), probe_path("aside")));
    PROBE_TRY(unlink(probe_path("again")));
    PROBE_TRY(rename(probe_path("aside"), probe_path("again")));
    PROBE_TRY(close(again));
    int temporary = PROBE_TRY(open(probe_path("."), O_TMPFILE | O_RDWR, 0640));
    PROBE_TRY(write(temporary, "never named", 11));
    do {
        PROBE_TRY(pwrite(fd, "linked", 6, 0));
        probe_ready();
        PROBE_SABOTAGE("other name", dup2(PROBE_TRY(open("/dev/null", O_RDWR)), fd));
        PROBE_SABOTAGE("never named", PROBE_TRY(ftruncate(temporary, 3)));
        struct stat by_name, by_fd;
        PROBE_TRY(stat(probe_path("two"), &by_name));
        PROBE_TRY(fstat(fd, &by_fd));
        probe_equal("inode by the other name", (long long)by_name.st_ino, (long long)by_fd.st_ino);
        int other = PROBE_TRY(open(probe_path("two"), O_RDONLY));
        char got[16] = "";
        memcpy(mapping, "mapped", 6);
        PROBE_SABOTAGE("through the mapping", memcpy(mapping, "linked", 6));
        probe_equal("bytes by the other name", 6, pread(other, got, 15, 0));
        probe_equal_text("what was written through the mapping", "mapped", got);
        PROBE_TRY(close(other));
        memcpy(back, "mapped", 6);
        other = PROBE_TRY(open(probe_path("again"), O_RDONLY));
        probe_equal("bytes by the name that came back", 6, pread(other, got, 15, 0));
        probe_equal_text("what was written through its mapping", "mapped", got);
        memcpy(back, "before", 6);
        PROBE_TRY(close(other));
        probe_equal("bytes of the never named", 11, pread(temporary, got, 15, 0));
        probe_equal_text("contents of the never named", "never named", got);
        PROBE_TRY(fstat(temporary, &by_fd));
        probe_equal("mode of the never named", 0640, by_fd.st_mode & 07777);
        probe_equal("position in the never named", 11, lseek(temporary, 0, SEEK_CUR));
    } while (probe_more());
    return probe_pass();
}
