/* SPDX-License-Identifier: Apache-2.0 */
/* A function of MPI-4 that wrappers do not cover: the program ends when it calls it, and is told.
 */
#include "check.h"

int main(int argc, char **argv)
{
    MPI_Session session;
    OK(MPI_Init(&argc, &argv));
    OK(MPI_Session_init(MPI_INFO_NULL, MPI_ERRORS_ARE_FATAL, &session));
    OK(MPI_Session_finalize(&session));
    OK(MPI_Finalize());
    return 0;
}
