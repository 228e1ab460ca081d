/* SPDX-License-Identifier: Apache-2.0 */
/* A program without libcr that checks whether it is linked: cr_run must not make it seem so. */
#include <stddef.h>

extern int cr_init(void) __attribute__((weak));

int main(void)
{
    return cr_init != NULL;
}
