! SPDX-License-Identifier: Apache-2.0
! mpi_f08: typed handles, subarrays, persistent requests, a file, a window. Handles are compared by
! their numbers: for the operators, 5.0's library has not what a program built with 4.1 looks for.
module operations
    use mpi_f08
    implicit none
contains
    subroutine largest_magnitude(in, inout, count, datatype)
        use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
        type(c_ptr), value :: in, inout
        integer :: count
        type(MPI_Datatype) :: datatype
        real(8), pointer :: a(:), b(:)
        if (datatype%MPI_VAL /= MPI_DOUBLE_PRECISION%MPI_VAL) stop 9
        call c_f_pointer(in, a, [count])
        call c_f_pointer(inout, b, [count])
        where (abs(a) > abs(b)) b = a
    end subroutine
end module

program new_fortran
    use mpi_f08
    use operations
    use, intrinsic :: iso_c_binding, only: c_ptr, c_f_pointer
    implicit none
    type(MPI_Comm) :: grid, half
    type(MPI_Request) :: requests(2)
    type(MPI_Status) :: status
    type(MPI_Datatype) :: inner
    type(MPI_Op) :: op
    type(MPI_Win) :: window
    type(MPI_Group) :: everybody, few
    type(c_ptr) :: base
    integer, pointer :: shelf(:)
    integer :: rank, ranks, left, right, i, round, coordinates(1), expected
    real(8) :: field(6, 6), value(2), result(2)

    call MPI_Init()
    call MPI_Comm_size(MPI_COMM_WORLD, ranks)
    call MPI_Cart_create(MPI_COMM_WORLD, 1, [ranks], [.true.], .false., grid)
    call MPI_Comm_rank(grid, rank)
    call MPI_Cart_shift(grid, 0, 1, left, right)
    call MPI_Cart_coords(grid, rank, 1, coordinates)

    field = rank
    call MPI_Type_create_subarray(2, [6, 6], [4, 4], [1, 1], MPI_ORDER_FORTRAN, &
                                  MPI_DOUBLE_PRECISION, inner)
    call MPI_Type_commit(inner)
    call MPI_Send_init(field, 1, inner, right, 3, grid, requests(1))
    call MPI_Recv_init(field, 6, MPI_DOUBLE_PRECISION, left, 4, grid, requests(2))
    call MPI_Request_free(requests(2))
    do round = 1, 3
        field(2:5, 2:5) = rank * 100 + round
        call MPI_Start(requests(1))
        call MPI_Recv(field, 1, inner, left, 3, grid, status)
        call MPI_Wait(requests(1), MPI_STATUS_IGNORE)
        if (field(3, 3) /= left * 100 + round .or. status%MPI_SOURCE /= left) stop 1
    end do
    call MPI_Request_free(requests(1))
    call MPI_Type_free(inner)

    value = [real(8) :: rank * (-1.5d0) ** rank, 1.0d0]
    call MPI_Op_create(largest_magnitude, .true., op)
    call MPI_Allreduce(value, result, 2, MPI_DOUBLE_PRECISION, op, grid)
    call MPI_Op_free(op)
    print '(i3,a,2f10.3)', rank, ' largest ', result

    call MPI_Win_allocate(8_MPI_ADDRESS_KIND * ranks, 4, MPI_INFO_NULL, grid, base, window)
    call c_f_pointer(base, shelf, [2 * ranks])
    shelf = -1
    call MPI_Win_fence(0, window)
    call MPI_Put(rank, 1, MPI_INTEGER, right, int(rank, MPI_ADDRESS_KIND), 1, MPI_INTEGER, window)
    call MPI_Win_fence(0, window)
    if (shelf(left + 1) /= left) stop 2
    call MPI_Win_free(window)

    call MPI_Comm_group(grid, everybody)
    call MPI_Group_incl(everybody, (ranks + 1) / 2, [(i, i = 0, ranks - 1, 2)], few)
    call MPI_Comm_create(grid, few, half)
    if (mod(rank, 2) == 0) then
        if (half%MPI_VAL == MPI_COMM_NULL%MPI_VAL) stop 3
        call MPI_Allreduce(rank, i, 1, MPI_INTEGER, MPI_SUM, half)
        expected = sum([(round, round = 0, ranks - 1, 2)])
        if (i /= expected) stop 4
        call MPI_Comm_free(half)
    else if (half%MPI_VAL /= MPI_COMM_NULL%MPI_VAL) then
        stop 5
    end if
    call MPI_Group_free(everybody)
    call MPI_Group_free(few)
    call MPI_Comm_free(grid)
    call MPI_Finalize()
end program
