// SPDX-License-Identifier: Apache-2.0
//
// A program whose memory is all of one generation. For each line that it reads it writes the next
// generation and prints it; at the end of its input it prints whether its memory is consistent.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { NUMBERS = 1 << 18 }; // 2 MiB

static uint64_t memory[NUMBERS];

int main(void)
{
    uint64_t generation = 0;
    char line[64];
    puts("ready");
    fflush(stdout);
    while (fgets(line, sizeof(line), stdin) != NULL) {
        generation++;
        for (uint64_t i = 0; i < NUMBERS; i++)
            memory[i] = generation * NUMBERS + i;
        printf("generation %ju\n", (uintmax_t)generation);
        fflush(stdout);
    }
    for (uint64_t i = 0; i < NUMBERS; i++) {
        if (generation != 0 && memory[i] != generation * NUMBERS + i) {
            printf("torn %ju\n", (uintmax_t)generation);
            return 1;
        }
    }
    printf("whole %ju\n", (uintmax_t)generation);
    return 0;
}
