// SPDX-License-Identifier: Apache-2.0
// Sockets in flight in which descriptors wait themselves (SCM_RIGHTS): each in the next one, one in
// its own queue, and two in each other's.
#include "passing.h"

enum { levels = 6 };

struct nested {
    int senders[levels]; // -1: closed
    int outermost;
};

// A file waits in the innermost of them.
static struct nested nested(int kind, bool from_within)
{
    struct nested all;
    int receivers[levels];
    for (int i = 0; i < levels; i++) {
        int pair[2];
        PROBE_TRY(socketpair(AF_UNIX, kind, 0, pair));
        all.senders[i] = pair[0];
        receivers[i] = pair[1];
    }
    const int file = new_file("file", "nested", 2);
    for (int k = 0; k < levels; k++) {
        const int i = from_within ? levels - 1 - k : k;
        send_files(all.senders[i], "in", 2, 1, i == levels - 1 ? &file : &receivers[i + 1]);
    }
    PROBE_TRY(close(file));
    close_files(levels - 1, receivers + 1);
    all.outermost = receivers[0];
    for (int i = 1; i < levels; i += 2) {
        PROBE_TRY(close(all.senders[i]));
        all.senders[i] = -1;
    }
    return all;
}

static void check_nested(const struct nested *all)
{
    int at = all->outermost, got[most_files];
    char text[8] = "";
    for (int i = 0; i < levels; i++) {
        if (i == levels - 1)
            PROBE_SABOTAGE("nested", PROBE_TRY(recv(at, text, 2, 0)));
        probe_equal("nested descriptors", 1, receive_files(at, text, 2, got));
        probe_equal_text("bytes beside them", "in", text);
        if (all->senders[i] >= 0) {
            PROBE_TRY(write(all->senders[i], "later", 5));
            expect_text("what comes later", "later", at);
            PROBE_TRY(close(all->senders[i]));
        }
        PROBE_TRY(close(at));
        at = got[0];
    }
    expect_text("nested file", "sted", at);
    PROBE_TRY(close(at));
}

static void expect_same(const char *what, int one, int other)
{
    PROBE_TRY(fcntl(one, F_SETFL, O_NONBLOCK));
    probe_equal(what, O_NONBLOCK, PROBE_TRY(fcntl(other, F_GETFL)) & O_NONBLOCK);
    PROBE_TRY(fcntl(one, F_SETFL, 0));
}

struct around {
    int own[2];    // the second waits in its own queue
    int a, b;      // whose peers wait in each other's queue,
    int holder[2]; // and that of `a` here, too
};

static struct around around(int kind)
{
    struct around all;
    int a[2], b[2];
    PROBE_TRY(socketpair(AF_UNIX, kind, 0, all.own));
    PROBE_TRY(socketpair(AF_UNIX, kind, 0, all.holder));
    PROBE_TRY(socketpair(AF_UNIX, kind, 0, a));
    PROBE_TRY(socketpair(AF_UNIX, kind, 0, b));
    send_files(all.own[0], "own", 3, 1, &all.own[1]);
    send_files(all.holder[0], "held", 4, 1, &a[1]);
    send_files(a[0], "b", 1, 1, &b[1]);
    send_files(b[0], "a", 1, 1, &a[1]);
    close_files(2, (int[]){a[1], b[1]});
    all.a = a[0];
    all.b = b[0];
    return all;
}

static void check_around(const struct around *all)
{
    int got[most_files], from_b[most_files], again[most_files];
    char text[8] = "";
    PROBE_SABOTAGE("in its own queue", PROBE_TRY(read(all->own[1], text, 3));
                   PROBE_TRY(write(all->own[0], "own", 3)));
    probe_equal("descriptors in its own queue", 1, receive_files(all->own[1], text, 7, got));
    probe_equal_text("bytes in its own queue", "own", text);
    expect_same("open file in its own queue", got[0], all->own[1]);
    close(got[0]);
    probe_equal("descriptors that were held", 1, receive_files(all->holder[1], text, 7, got));
    probe_equal("descriptors in the first of two", 1, receive_files(got[0], text, 7, from_b));
    probe_equal_text("bytes in the first of two", "b", text);
    PROBE_SABOTAGE("second of two", PROBE_TRY(read(from_b[0], text, 7));
                   PROBE_TRY(write(all->b, "a", 1)));
    probe_equal("descriptors in the second of two", 1, receive_files(from_b[0], text, 7, again));
    probe_equal_text("bytes in the second of two", "a", text);
    expect_same("open file that has come around", got[0], again[0]);
    PROBE_TRY(write(again[0], "back", 4));
    expect_text("what comes back", "back", all->a);
    close_files(3, (int[]){got[0], from_b[0], again[0]});
    close_files(6,
                (int[]){all->own[0], all->own[1], all->holder[0], all->holder[1], all->a, all->b});
}

int main(int argc, char **argv)
{
    probe_start(argc, argv);
    do {
        const int kinds[] = {SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM};
        struct nested deep[6];
        struct around circles[3];
        for (int i = 0; i < 3; i++) {
            deep[i] = nested(kinds[i], false);
            deep[3 + i] = nested(kinds[i], true);
            circles[i] = around(kinds[i]);
        }
        probe_ready();
        for (int i = 0; i < 6; i++)
            check_nested(&deep[i]);
        for (int i = 0; i < 3; i++)
            check_around(&circles[i]);
    } while (probe_more());
    return probe_pass();
}
