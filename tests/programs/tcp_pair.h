// SPDX-License-Identifier: Apache-2.0
//
// A TCP connection over loopback, both ends in this process.
//
//     int client, server;
//     probe_connect_tcp(&client, &server);
#ifndef CRYO_TESTS_PROGRAMS_TCP_PAIR_H
#define CRYO_TESTS_PROGRAMS_TCP_PAIR_H

#include "probe.h"

#include <netinet/in.h>
#include <sys/socket.h>

// The listening socket stays open.
static inline void probe_connect_tcp(int *client, int *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    const int listener = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(bind(listener, (struct sockaddr *)&address, size));
    PROBE_TRY(listen(listener, 1));
    PROBE_TRY(getsockname(listener, (struct sockaddr *)&address, &size));
    *client = PROBE_TRY(socket(AF_INET, SOCK_STREAM, 0));
    PROBE_TRY(connect(*client, (struct sockaddr *)&address, size));
    *server = PROBE_TRY(accept(listener, NULL, NULL));
}

#endif
