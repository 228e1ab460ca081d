/* SPDX-License-Identifier: Apache-2.0 */
/* Counts until a file `go` appears, and then says how far, and what its argument was. */
#include <stdio.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    unsigned long count = 0;

    while (access("go", F_OK) != 0) {
        if (count++ == 0) {
            puts("counting");
            fflush(stdout);
        }
        usleep(10000);
    }
    printf("%s %s\n", argc > 1 ? argv[1] : "", count > 0 ? "counted" : "never counted");
    return 0;
}
