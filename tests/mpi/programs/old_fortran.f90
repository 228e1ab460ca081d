! SPDX-License-Identifier: Apache-2.0
! mpif.h: messages, reductions, operations and attributes written in Fortran, constants by address.
subroutine add_twice(in, inout, count, datatype)
    implicit none
    integer :: count, datatype
    integer :: in(count), inout(count)
    if (datatype < 0) stop 9
    inout = inout + 2 * in
end subroutine

subroutine copy_double(comm, keyval, extra, value_in, value_out, flag, ierr)
    implicit none
    include 'mpif.h'
    integer :: comm, keyval, ierr
    integer(kind=MPI_ADDRESS_KIND) :: extra, value_in, value_out
    logical :: flag
    value_out = 2 * value_in + extra
    flag = .true.
    ierr = MPI_SUCCESS
end subroutine

subroutine forget(comm, keyval, value, extra, ierr)
    implicit none
    include 'mpif.h'
    integer :: comm, keyval, ierr
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    integer :: deleted
    common /counts/ deleted
    deleted = deleted + 1
    ierr = MPI_SUCCESS
end subroutine

subroutine on_error(comm, code)
    implicit none
    include 'mpif.h'
    integer :: comm, code, seen
    common /errors/ seen
    if (comm == MPI_COMM_WORLD) seen = seen + 1
end subroutine

program old_fortran
    implicit none
    include 'mpif.h'
    external add_twice, copy_double, forget, on_error
    integer :: ierr, rank, ranks, left, right, op, comm, keyval, handler, newtype, i
    integer :: deleted, seen
    common /counts/ deleted
    common /errors/ seen
    integer :: status(MPI_STATUS_SIZE), requests(2)
    integer :: mine(8), got(8), total(8)
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    logical :: flag
    character(len=MPI_MAX_OBJECT_NAME) :: name
    integer :: length, old_value

    deleted = 0
    seen = 0
    call MPI_INIT(ierr)
    call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
    call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
    left = mod(rank + ranks - 1, ranks)
    right = mod(rank + 1, ranks)
    mine = [(rank * 10 + i, i = 1, 8)]

    call MPI_IRECV(got, 8, MPI_INTEGER, left, 1, MPI_COMM_WORLD, requests(1), ierr)
    call MPI_ISEND(mine, 8, MPI_INTEGER, right, 1, MPI_COMM_WORLD, requests(2), ierr)
    call MPI_WAITALL(2, requests, MPI_STATUSES_IGNORE, ierr)
    if (requests(1) /= MPI_REQUEST_NULL) stop 1
    call MPI_SENDRECV(mine, 8, MPI_INTEGER, right, 2, total, 8, MPI_INTEGER, left, 2, &
                      MPI_COMM_WORLD, status, ierr)
    if (status(MPI_SOURCE) /= left .or. any(total /= got)) stop 2

    call MPI_OP_CREATE(add_twice, .false., op, ierr)
    call MPI_REDUCE(mine, total, 8, MPI_INTEGER, op, 0, MPI_COMM_WORLD, ierr)
    call MPI_OP_FREE(op, ierr)
    if (rank == 0) print '(a,8i6)', 'operation ', total
    total = mine
    call MPI_ALLREDUCE(MPI_IN_PLACE, total, 8, MPI_INTEGER, MPI_SUM, MPI_COMM_WORLD, ierr)
    print '(i3,a,8i6)', rank, ' sums ', total

    extra = 5
    call MPI_COMM_CREATE_KEYVAL(copy_double, forget, keyval, extra, ierr)
    value = 100 + rank
    call MPI_COMM_SET_ATTR(MPI_COMM_WORLD, keyval, value, ierr)
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
    call MPI_COMM_GET_ATTR(comm, keyval, value, flag, ierr)
    if (.not. flag .or. value /= 2 * (100 + rank) + 5) stop 3
    call MPI_COMM_FREE(comm, ierr)
    call MPI_COMM_DELETE_ATTR(MPI_COMM_WORLD, keyval, ierr)
    if (deleted /= 2) stop 4
    call MPI_COMM_FREE_KEYVAL(keyval, ierr)
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, keyval, extra, ierr)
    value = 77
    call MPI_COMM_SET_ATTR(MPI_COMM_WORLD, keyval, value, ierr)
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
    value = 0
    call MPI_COMM_GET_ATTR(comm, keyval, value, flag, ierr)
    if (.not. flag .or. value /= 77) stop 5
    call MPI_COMM_FREE(comm, ierr)
    call MPI_COMM_GET_ATTR(MPI_COMM_WORLD, MPI_TAG_UB, value, flag, ierr)
    call MPI_ATTR_GET(MPI_COMM_WORLD, MPI_TAG_UB, old_value, flag, ierr)
    if (.not. flag .or. value /= old_value .or. old_value < 32767) stop 6

    call MPI_COMM_CREATE_ERRHANDLER(on_error, handler, ierr)
    call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, handler, ierr)
    call MPI_SEND(mine, 1, MPI_INTEGER, ranks + 5, 1, MPI_COMM_WORLD, ierr)
    if (ierr == MPI_SUCCESS .or. seen /= 1) stop 7
    call MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_ARE_FATAL, ierr)

    call MPI_TYPE_VECTOR(4, 1, 2, MPI_INTEGER, newtype, ierr)
    call MPI_TYPE_COMMIT(newtype, ierr)
    call MPI_TYPE_SET_NAME(newtype, 'every second', ierr)
    call MPI_TYPE_GET_NAME(newtype, name, length, ierr)
    call MPI_BCAST(mine, 1, newtype, 0, MPI_COMM_WORLD, ierr)
    call MPI_TYPE_FREE(newtype, ierr)
    print '(i3,a,8i6,1x,a)', rank, ' vector', mine, name(1:length)
    call MPI_FINALIZE(ierr)
end program
