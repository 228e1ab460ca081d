// SPDX-License-Identifier: Apache-2.0
// Descriptors in flight (SCM_RIGHTS) between two processes that are connected by a name: a file
// that the sender still has open, and one that no process has.
#include "passing.h"

#include <sys/un.h>

static struct sockaddr_un address = {.sun_family = AF_UNIX, .sun_path = "passing"};

static void sender(void)
{
    const int to = (int)PROBE_TRY(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    PROBE_TRY(connect(to, (struct sockaddr *)&address, sizeof address));
    const int held = new_file("held", "between two", 4);
    const int lost = new_file("lost", "nobody has it", 7);
    send_files(to, "files", 5, 2, (int[]){held, lost});
    PROBE_TRY(close(lost));
    probe_await_check();
    char text[8] = "";
    probe_equal("size of the answer", 4, read(to, text, sizeof text));
    probe_equal("offset in the sender", 11, lseek(held, 0, SEEK_CUR));
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    PROBE_TRY(chdir(probe_path(".")));
    const int listener = (int)PROBE_TRY(socket(AF_UNIX, SOCK_SEQPACKET, 0));
    PROBE_TRY(bind(listener, (struct sockaddr *)&address, sizeof address));
    PROBE_TRY(listen(listener, 4));
    do {
        char text[64];
        int files[most_files];
        const pid_t member = probe_fork(sender);
        const int connection = (int)PROBE_TRY(accept(listener, NULL, NULL));
        probe_ready();
        probe_equal("descriptors", 2, receive_files(connection, text, 60, files));
        probe_equal_text("bytes beside them", "files", text);
        expect_text("file that nobody had", "has it", files[1]);
        PROBE_SABOTAGE("receiver", lseek(files[0], 1, SEEK_SET));
        probe_equal("offset in the receiver", 4, lseek(files[0], 0, SEEK_CUR));
        expect_text("file that the sender has", "een two", files[0]);
        PROBE_TRY(write(connection, "seen", 4));
        probe_reap("sender", member);
        close_files(2, files);
        close(connection);
    } while (probe_more());
    return probe_pass();
}
