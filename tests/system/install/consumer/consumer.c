/* SPDX-License-Identifier: Apache-2.0 */
#include <libcr.h>
#include <stdio.h>

int main(void)
{
    printf("%s: %s\n", cr_version_string(), cr_strerror(CR_ENOINIT));
    return 0;
}
