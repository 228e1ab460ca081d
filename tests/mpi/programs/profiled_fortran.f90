! SPDX-License-Identifier: Apache-2.0
! For profile_fortran.f90, and for profile.c where functions in Fortran call those in C: sums up
! numbers of all ranks.
program profiled_fortran
    implicit none
    include 'mpif.h'
    integer :: error, rank, ranks, i, all
    call mpi_init(error)
    call mpi_comm_rank(MPI_COMM_WORLD, rank, error)
    call mpi_comm_size(MPI_COMM_WORLD, ranks, error)
    do i = 1, 20
        call mpi_barrier(MPI_COMM_WORLD, error)
        call mpi_allreduce(rank + i, all, 1, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, error)
        if (all /= ranks * i + ranks * (ranks - 1) / 2) call mpi_abort(MPI_COMM_WORLD, 1, error)
    end do
    call mpi_finalize(error)
end program
