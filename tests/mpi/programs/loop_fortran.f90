! SPDX-License-Identifier: Apache-2.0
! Rounds of messages, reductions, a window and persistent requests from Fortran: by mpi_f08 and, in
! a routine of its own, by mpif.h. The first argument says how many.
module shared
    use mpi_f08
    implicit none
    integer :: rank, ranks, left, right
contains
    subroutine largest_digit(in, inout, length, kind)
        use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
        type(c_ptr), value :: in, inout
        integer :: length
        type(MPI_Datatype) :: kind
        integer, pointer :: one(:), other(:)
        if (kind%MPI_VAL /= MPI_INTEGER%MPI_VAL) call MPI_Abort(MPI_COMM_WORLD, 3)
        call c_f_pointer(in, one, [length])
        call c_f_pointer(inout, other, [length])
        other = max(mod(one, 10), mod(other, 10))
    end subroutine
end module

subroutine the_old_way(round, from_left)
    implicit none
    include 'mpif.h'
    integer, intent(in) :: round
    integer, intent(out) :: from_left
    integer :: me, all, request, error, status(MPI_STATUS_SIZE), value
    call MPI_Comm_rank(MPI_COMM_WORLD, me, error)
    call MPI_Comm_size(MPI_COMM_WORLD, all, error)
    value = me * 50 + round
    call MPI_Isend(value, 1, MPI_INTEGER, mod(me + 1, all), 9, MPI_COMM_WORLD, request, error)
    call MPI_Recv(from_left, 1, MPI_INTEGER, mod(me + all - 1, all), 9, MPI_COMM_WORLD, status, error)
    call MPI_Wait(request, status, error)
end subroutine

program loop_fortran
    use shared
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    use, intrinsic :: iso_fortran_env, only: int64
    implicit none
    integer :: rounds, round, older, digit, value, got
    integer, pointer :: cells(:)
    integer(int64) :: total
    character(16) :: argument
    type(c_ptr) :: base
    type(MPI_Win) :: window
    type(MPI_Op) :: operation
    type(MPI_Comm) :: ring
    type(MPI_Datatype) :: pair
    type(MPI_Request) :: requests(2)
    call get_command_argument(1, argument)
    read (argument, *) rounds
    call MPI_Init()
    call MPI_Comm_rank(MPI_COMM_WORLD, rank)
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    right = mod(rank + 1, ranks)
    left = mod(rank + ranks - 1, ranks)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., ring)
    call MPI_Op_create(largest_digit, .true., operation)
    call MPI_Type_vector(2, 1, 3, MPI_INTEGER, pair)
    call MPI_Type_commit(pair)
    call MPI_Win_allocate(4_MPI_ADDRESS_KIND * 8, 4, MPI_INFO_NULL, MPI_COMM_WORLD, base, window)
    call c_f_pointer(base, cells, [8])
    cells = 0
    call MPI_Recv_init(got, 1, MPI_INTEGER, left, 3, ring, requests(1))
    call MPI_Send_init(value, 1, MPI_INTEGER, right, 3, ring, requests(2))
    total = 0
    do round = 1, rounds
        value = rank * 100 + round
        call MPI_Startall(2, requests)
        call sleep_a_little()
        call MPI_Waitall(2, requests, MPI_STATUSES_IGNORE)
        call MPI_Allreduce(value, digit, 1, MPI_INTEGER, operation, ring)
        call MPI_Win_fence(0, window)
        call MPI_Put(value, 1, MPI_INTEGER, right, 2_MPI_ADDRESS_KIND, 1, MPI_INTEGER, window)
        call MPI_Win_fence(0, window)
        call exchange(round)
        call the_old_way(round, older)
        total = mod(total * 31 + got + 3 * digit + 5 * cells(3) + 7 * older + 11 * cells(7), 1000000007_int64)
    end do
    call wait_to_end()
    call MPI_Request_free(requests(1))
    call MPI_Request_free(requests(2))
    call MPI_Win_free(window)
    call MPI_Type_free(pair)
    call MPI_Op_free(operation)
    call MPI_Comm_free(ring)
    write (*, '(I0, ": ", Z16.16)') rank, total
    call MPI_Finalize()
contains
    include 'wait_to_end.f90'

    subroutine exchange(number)
        integer, intent(in) :: number
        integer :: out(6), in(6)
        out = number + rank
        in = 0
        call MPI_Send(out, 1, pair, right, 4, ring)
        call sleep_a_little()
        call MPI_Recv(in, 1, pair, left, 4, ring, MPI_STATUS_IGNORE)
        cells(7) = sum(in)
    end subroutine

    subroutine sleep_a_little()
        interface
            integer(c_int) function usleep(microseconds) bind(c, name="usleep")
                use, intrinsic :: iso_c_binding, only: c_int
                integer(c_int), value :: microseconds
            end function
        end interface
        integer :: unused
        unused = usleep(300)
    end subroutine
end program
