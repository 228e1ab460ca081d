! SPDX-License-Identifier: Apache-2.0
! MPI_CKPT from Fortran: the arguments are how many steps there are, and after how many of them the
! job is saved; see versions.c.
program versions_fortran
    use mpi_f08
    implicit none
    external :: mpi_ckpt, ckpt_restarts
    character(len=20) :: word
    integer :: steps, every, step, error, restarts, rank, ranks, left
    integer(8) :: sum
    call get_command_argument(1, word)
    read (word, *) steps
    call get_command_argument(2, word)
    read (word, *) every
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    sum = 0
    do step = 1, steps
        call MPI_Sendrecv(rank * step, 1, MPI_INTEGER, modulo(rank + 1, ranks), 1, left, 1, &
                          MPI_INTEGER, modulo(rank - 1, ranks), 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE)
        sum = mod(sum * 31 + left, 1000000007_8)
        if (modulo(step, every) == 0) then
            call mpi_ckpt(error)
            if (error < 0) call MPI_Abort(MPI_COMM_WORLD, 3)
        end if
    end do
    call ckpt_restarts(restarts)
    if (rank == 0) print '(a,i0)', '# restarts ', restarts
    print '(i0,a,z16.16)', rank, ': ', sum
    call MPI_Finalize()
end program
