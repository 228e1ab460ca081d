/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between a program that saves itself (cr_self_register) and the commands' backend
 * `self`, over sockets that preserve message boundaries.
 *
 * Save: the command listens at CRYO_SELF_ADDRESS, in the abstract namespace; at its points the
 * program tries to connect to it. SAVE, with a descriptor of an empty file → SAVED → if the program
 * is to wait for the image: GO, or the end of the connection.
 *
 * Restart: the command starts the program with CRYO_SELF_VARIABLE=PID:FILE:SOCKET in its
 * environment: the program's pid and two descriptor numbers. BACK → GO.
 */
#ifndef CRYO_SELF_H
#define CRYO_SELF_H

#include <stdint.h>

#define CRYO_SELF_ADDRESS                                                                          \
    "cryo-self.%s.%d" /* the pid namespace as in /proc/PID/ns, the pid in it */
#define CRYO_SELF_VARIABLE "CRYO_SELF"

enum { CRYO_SELF_MAGIC = 0x666c6553 };
enum { CRYO_SELF_SAVE = 1, CRYO_SELF_SAVED, CRYO_SELF_GO, CRYO_SELF_BACK };

struct cryo_self_message {
    uint32_t magic;
    uint32_t what;
    int32_t result; /* of save() or restore(): 0, or an errno */
    uint32_t waits; /* with SAVE: nonzero if the program is to wait for GO */
};

#endif
