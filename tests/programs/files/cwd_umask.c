// SPDX-License-Identifier: Apache-2.0
// The working directory, also one that was removed, and the umask.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(mkdir(probe_path("home"), 0700));
    PROBE_TRY(chdir(probe_path("home")));
    umask(027);
    do {
        probe_ready();
        PROBE_SABOTAGE("working directory", chdir("/"));
        PROBE_SABOTAGE("umask", umask(0));
        char here[4096] = "";
        probe_equal_text("working directory", probe_path("home"), getcwd(here, sizeof here));
        int fd = PROBE_TRY(open("made", O_CREAT | O_RDWR, 0666));
        struct stat made;
        PROBE_TRY(stat(probe_path("home/made"), &made));
        PROBE_TRY(unlink("made"));
        PROBE_TRY(close(fd));
        probe_equal("mode of a new file under the umask", 0640, made.st_mode & 0777);
        probe_equal("umask", 027, (long long)umask(027));
    } while (probe_more());
    return probe_pass();
}
