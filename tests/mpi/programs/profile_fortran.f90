! SPDX-License-Identifier: Apache-2.0
! A profiling tool for Fortran: it counts calls, and tells in MPI_Finalize how many there were.
module counted
    implicit none
    integer :: calls = 0
end module

subroutine mpi_barrier(comm, error)
    use counted
    implicit none
    integer :: comm, error
    calls = calls + 1
    call pmpi_barrier(comm, error)
end subroutine

subroutine mpi_finalize(error)
    use counted
    implicit none
    include 'mpif.h'
    integer :: error, rank
    call pmpi_comm_rank(MPI_COMM_WORLD, rank, error)
    print '(i0,a,i0,a)', rank, ': ', calls, ' barriers in Fortran'
    flush (6)
    call pmpi_finalize(error)
end subroutine
