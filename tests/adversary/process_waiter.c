/* SPDX-License-Identifier: Apache-2.0 */
/* Catches the checkpoint signal, as a program of its own mind may, and waits. */
#include <signal.h>
#include <unistd.h>

static void nothing(int signal)
{
    (void)signal;
}

int main(void)
{
    signal(SIGRTMAX, nothing);
    for (;;)
        pause();
}
