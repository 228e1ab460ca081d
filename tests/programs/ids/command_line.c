// SPDX-License-Identifier: Apache-2.0
// The name and arguments that ps shows; the program has overwritten the arguments.
#include "probe.h"

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    char executable[4096] = "", found[4096] = "";
    PROBE_TRY(readlink("/proc/self/exe", executable, sizeof executable - 1));
    const size_t room = strlen(argv[0]);
    const char *title = "worker: idle";
    probe_true("room for a title", room > strlen(title));
    memset(argv[0], ' ', room);
    memcpy(argv[0], title, strlen(title));
    const char *comm = probe_read_text("/proc/self/comm");
    do {
        probe_ready();
        PROBE_SABOTAGE("title", argv[0][0] = 'W');
        char line[8192] = ""; // several strings, so not read as text
        int fd = PROBE_TRY(open("/proc/self/cmdline", O_RDONLY));
        PROBE_TRY(read(fd, line, sizeof line - 1));
        close(fd);
        probe_equal("length of the title", (long long)room, (long long)strlen(line));
        probe_equal_bytes("title", title, line, strlen(title));
        probe_equal_text("argument after the title", "--dir", line + room + 1);
        probe_equal_text("comm", comm, probe_read_text("/proc/self/comm"));
        memset(found, 0, sizeof found);
        PROBE_TRY(readlink("/proc/self/exe", found, sizeof found - 1));
        probe_equal_text("executable", executable, found);
    } while (probe_more());
    return probe_pass();
}
