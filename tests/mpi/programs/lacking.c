/* SPDX-License-Identifier: Apache-2.0 */
/* A function of MPI-4 that wrappers do not cover: the program ends when it calls it, and is told.
 */
#include "check.h"

int main(int argc, char **argv)
{
    int count;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_T_event_get_num(&count));
    OK(MPI_Finalize());
    return 0;
}
