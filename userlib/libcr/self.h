/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The protocol between a program that saves itself (cr_self_register) and the commands' backend
 * `self`, over sockets that preserve message boundaries.
 *
 * Save: a registered program has a page of memory whose name is CRYO_SELF_MEMORY and random digits;
 * only users who may look into the process find it in /proc/PID/maps. The command listens at
 * CRYO_SELF_ADDRESS, in the abstract namespace, with these digits in it: nobody else can take this
 * address first. From then on everybody reads it in /proc/net/unix, so the program changes the
 * digits at its points, and the command follows. At its points the program tries to connect. SAVE,
 * with a descriptor of an empty file → SAVED → if the program is to wait for the image: GO, or the
 * end of the connection.
 *
 * Restart: the command starts the program with CRYO_SELF_VARIABLE=PID:FILE:SOCKET in its
 * environment: the program's pid and two descriptor numbers. BACK → GO.
 */
#ifndef CRYO_SELF_H
#define CRYO_SELF_H

#include <stdint.h>

#define CRYO_SELF_MEMORY "cryo-self." /* and the digits: the name of a memfd that is mapped */
#define CRYO_SELF_ADDRESS                                                                          \
    "cryo-self.%s.%d.%s" /* the pid namespace as in /proc/PID/ns, the pid in it, the digits */
#define CRYO_SELF_VARIABLE "CRYO_SELF"

enum { CRYO_SELF_MAGIC = 0x666c6553, CRYO_SELF_DIGITS = 32 };
enum { CRYO_SELF_SAVE = 1, CRYO_SELF_SAVED, CRYO_SELF_GO, CRYO_SELF_BACK };

struct cryo_self_message {
    uint32_t magic;
    uint32_t what;
    int32_t result; /* of save() or restore(): 0, or an errno */
    uint32_t waits; /* with SAVE: nonzero if the program is to wait for GO */
};

#endif
