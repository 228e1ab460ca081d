// SPDX-License-Identifier: Apache-2.0
// A static program without any knowledge of Cryo: counter FILE. It writes a rising number into FILE
// for every line that it reads from FILE.go, a FIFO, and ends with status 7 at the line "end".
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    char name[4096], line[64];
    if (argc != 2)
        return 2;
    FILE *out = fopen(argv[1], "a");
    snprintf(name, sizeof(name), "%s.go", argv[1]);
    FILE *in = fopen(name, "r+"); // this process holds both ends: no end of file
    if (out == NULL || in == NULL)
        return 2;
    for (int i = 0; fprintf(out, "%d\n", i) > 0 && fflush(out) == 0; i++) {
        if (fgets(line, sizeof(line), in) == NULL)
            return 3;
        if (strcmp(line, "end\n") == 0)
            return 7;
    }
    return 4;
}
