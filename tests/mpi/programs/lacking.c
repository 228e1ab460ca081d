/* SPDX-License-Identifier: Apache-2.0 */
/* A function of MPI-4 that the wrappers lack: the program ends on calling it, with a message.
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
