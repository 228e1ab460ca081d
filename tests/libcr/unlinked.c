/* SPDX-License-Identifier: Apache-2.0 */
/* A program that is not linked with libcr and looks whether it is: cr_run does not deceive it. */
#include <stddef.h>

extern int cr_init(void) __attribute__((weak));

int main(void)
{
    return cr_init != NULL;
}
