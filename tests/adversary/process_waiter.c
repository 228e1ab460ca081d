/* SPDX-License-Identifier: Apache-2.0 */
/* Installs its own handler for the checkpoint signal, as any program may, and waits. */
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
