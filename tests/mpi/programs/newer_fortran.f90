! SPDX-License-Identifier: Apache-2.0
! mpif.h of Open MPI 5.0: what its library reads of the C library's objects by itself, and functions
! that it has and 4.1 does not. These are found when the program runs: it may be built with 4.1.
module newer
    use, intrinsic :: iso_c_binding
    implicit none
    procedure(), pointer :: info_get_string, alltoallw_init, allreduce_init, isendrecv, idup_with_info
contains
    subroutine find(name, found)
        interface
            type(c_funptr) function dlsym(where, name) bind(c)
                import
                type(c_ptr), value :: where
                character(kind=c_char), intent(in) :: name(*)
            end function
        end interface
        character(*), intent(in) :: name
        procedure(), pointer, intent(out) :: found
        type(c_funptr) :: address
        address = dlsym(c_null_ptr, name // c_null_char)
        if (.not. c_associated(address)) stop 1
        call c_f_procpointer(address, found)
    end subroutine

    subroutine find_all
        call find('mpi_info_get_string_', info_get_string)
        call find('mpi_alltoallw_init_', alltoallw_init)
        call find('mpi_allreduce_init_', allreduce_init)
        call find('mpi_isendrecv_', isendrecv)
        call find('mpi_comm_idup_with_info_', idup_with_info)
    end subroutine
end module

subroutine sum_up(in, inout, count, datatype)
    implicit none
    integer :: count, datatype
    integer :: in(count), inout(count)
    if (datatype < 0) stop 90
    inout = inout + in
end subroutine

subroutine note(object, code)
    implicit none
    integer :: object, code, seen
    common /errors/ seen
    if (object >= 0 .and. code /= 0) seen = seen + 1
end subroutine

subroutine answer(extra, status, ierr)
    implicit none
    include 'mpif.h'
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: status(MPI_STATUS_SIZE), ierr
    call MPI_STATUS_SET_ELEMENTS(status, MPI_INTEGER, int(extra), ierr)
    call MPI_STATUS_SET_CANCELLED(status, .false., ierr)
    status(MPI_SOURCE) = 12
    status(MPI_TAG) = 34
end subroutine

subroutine forget(extra, ierr)
    implicit none
    include 'mpif.h'
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierr
    ierr = MPI_SUCCESS
    if (extra /= 5) ierr = MPI_ERR_OTHER
end subroutine

subroutine infos
    use newer
    implicit none
    include 'mpif.h'
    integer :: info, length, ierr
    logical :: flag
    character(len=20) :: value
    character(len=MPI_MAX_INFO_KEY) :: key
    call MPI_INFO_CREATE(info, ierr)
    call MPI_INFO_SET(info, 'first', 'what it says', ierr)
    call MPI_INFO_SET(info, 'second', 'two', ierr)
    call MPI_INFO_GET(info, 'first', 20, value, flag, ierr)
    if (.not. flag .or. value /= 'what it says') stop 10
    call MPI_INFO_GET(info, 'third', 20, value, flag, ierr)
    if (flag .or. ierr /= MPI_SUCCESS) stop 11
    call MPI_INFO_GET_VALUELEN(info, 'second', length, flag, ierr)
    if (.not. flag .or. length /= 3) stop 12
    call MPI_INFO_GET_NTHKEY(info, 1, key, ierr)
    if (ierr /= MPI_SUCCESS .or. key /= 'second') stop 13
    length = 0
    call info_get_string(info, 'first', length, value, flag, ierr)
    if (.not. flag .or. length /= 12) stop 14
    length = 20
    value = ''
    call info_get_string(info, 'first', length, value(1:19), flag, ierr)
    if (.not. flag .or. length /= 12 .or. value /= 'what it says') stop 15
    call info_get_string(info, 'third', length, value(1:19), flag, ierr)
    if (flag .or. ierr /= MPI_SUCCESS) stop 16
    call MPI_INFO_FREE(info, ierr)
end subroutine

! MPI_ALLTOALLW looks into communicators for their sizes, of both sorts.
subroutine exchanges(comm, others)
    use newer
    implicit none
    include 'mpif.h'
    integer :: comm, others, i, rank, request, round, ierr
    integer :: counts(others), places(others), types(others), out(others), in(others)
    integer :: status(MPI_STATUS_SIZE)
    call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
    counts = 1
    places = [(4 * i, i = 0, others - 1)]
    types = MPI_INTEGER
    out = [(rank * 100 + i, i = 1, others)]
    in = 0
    call MPI_ALLTOALLW(out, counts, places, types, in, counts, places, types, comm, ierr)
    print '(i3,a,8i6)', rank, ' has got  ', in
    in = 0
    call MPI_IALLTOALLW(out, counts, places, types, in, counts, places, types, comm, request, ierr)
    call MPI_WAIT(request, status, ierr)
    if (request /= MPI_REQUEST_NULL) stop 20
    print '(i3,a,8i6)', rank, ' and again', in
    call alltoallw_init(out, counts, places, types, in, counts, places, types, comm, &
                            MPI_INFO_NULL, request, ierr)
    do round = 1, 3
        in = 0
        out = out + 1000
        call MPI_START(request, ierr)
        call MPI_WAIT(request, status, ierr)
        print '(i3,a,8i6)', rank, ' in rounds', in
    end do
    call MPI_REQUEST_FREE(request, ierr)
end subroutine

! The places of attributes, error handlers, groups and operations.
subroutine objects(rank, ranks)
    use newer
    implicit none
    include 'mpif.h'
    external sum_up, note, answer, forget
    integer :: rank, ranks, keyval, handler, window, datatype, all, some, op, request, ierr, size
    integer :: seen, cells(4), sum, status(MPI_STATUS_SIZE)
    common /errors/ seen
    integer(kind=MPI_ADDRESS_KIND) :: value, extra, bytes
    logical :: flag
    extra = 0
    value = 40 + rank
    call MPI_TYPE_CONTIGUOUS(3, MPI_INTEGER, datatype, ierr)
    call MPI_TYPE_CREATE_KEYVAL(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, keyval, extra, ierr)
    call MPI_TYPE_SET_ATTR(datatype, keyval, value, ierr)
    value = 0
    call MPI_TYPE_GET_ATTR(datatype, keyval, value, flag, ierr)
    if (.not. flag .or. value /= 40 + rank) stop 30
    call MPI_TYPE_FREE(datatype, ierr)
    call MPI_TYPE_FREE_KEYVAL(keyval, ierr)

    bytes = 16
    call MPI_WIN_CREATE(cells, bytes, 4, MPI_INFO_NULL, MPI_COMM_WORLD, window, ierr)
    call MPI_WIN_CREATE_KEYVAL(MPI_WIN_DUP_FN, MPI_WIN_NULL_DELETE_FN, keyval, extra, ierr)
    value = 50 + rank
    call MPI_WIN_SET_ATTR(window, keyval, value, ierr)
    value = 0
    call MPI_WIN_GET_ATTR(window, keyval, value, flag, ierr)
    if (.not. flag .or. value /= 50 + rank) stop 31
    call MPI_WIN_GET_ATTR(window, MPI_WIN_SIZE, value, flag, ierr)
    if (.not. flag .or. value /= 16) stop 32
    seen = 0
    call MPI_WIN_CREATE_ERRHANDLER(note, handler, ierr)
    call MPI_WIN_SET_ERRHANDLER(window, handler, ierr)
    call MPI_WIN_CALL_ERRHANDLER(window, MPI_ERR_OTHER, ierr)
    if (seen /= 1) stop 33
    call MPI_WIN_FREE(window, ierr)
    call MPI_ERRHANDLER_FREE(handler, ierr)

    call MPI_COMM_GROUP(MPI_COMM_WORLD, all, ierr)
    call MPI_GROUP_EXCL(all, 1, [0], some, ierr)
    call MPI_GROUP_SIZE(some, size, ierr)
    if (size /= ranks - 1) stop 34
    call MPI_GROUP_FREE(some, ierr)
    call MPI_GROUP_FREE(all, ierr)
    call MPI_TYPE_MATCH_SIZE(MPI_TYPECLASS_REAL, 8, datatype, ierr)
    if (datatype /= MPI_REAL8) stop 35

    call MPI_OP_CREATE(sum_up, .true., op, ierr)
    call allreduce_init(rank, sum, 1, MPI_INTEGER, op, MPI_COMM_WORLD, MPI_INFO_NULL, request, &
                            ierr)
    call MPI_START(request, ierr)
    call MPI_WAIT(request, status, ierr)
    if (sum /= ranks * (ranks - 1) / 2) stop 36
    call MPI_REQUEST_FREE(request, ierr)
    call MPI_OP_FREE(op, ierr)

    extra = 5
    call MPI_GREQUEST_START(answer, forget, forget, extra, request, ierr)
    call MPI_GREQUEST_COMPLETE(request, ierr)
    call MPI_WAIT(request, status, ierr)
    call MPI_GET_COUNT(status, MPI_INTEGER, size, ierr)
    if (status(MPI_TAG) /= 34 .or. size /= 5) stop 37
end subroutine

program newer_fortran
    use newer
    implicit none
    include 'mpif.h'
    integer :: rank, ranks, ierr, half, between, leader, request, got, copy, seen, status(MPI_STATUS_SIZE)
    common /errors/ seen
    call find_all
    call MPI_INIT(ierr)
    call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
    call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
    call infos
    call objects(rank, ranks)
    call exchanges(MPI_COMM_WORLD, ranks)

    ! The first rank and all others.
    call MPI_COMM_SPLIT(MPI_COMM_WORLD, min(rank, 1), rank, half, ierr)
    leader = merge(1, 0, rank == 0)
    call MPI_INTERCOMM_CREATE(half, 0, MPI_COMM_WORLD, leader, 3, between, ierr)
    call exchanges(between, merge(ranks - 1, 1, rank == 0))
    call MPI_COMM_FREE(between, ierr)
    call MPI_COMM_FREE(half, ierr)

    call isendrecv(rank, 1, MPI_INTEGER, mod(rank + 1, ranks), 4, got, 1, MPI_INTEGER, &
                       mod(rank + ranks - 1, ranks), 4, MPI_COMM_WORLD, request, ierr)
    call MPI_WAIT(request, status, ierr)
    if (got /= mod(rank + ranks - 1, ranks)) stop 40
    call idup_with_info(MPI_COMM_WORLD, MPI_INFO_NULL, copy, request, ierr)
    call MPI_WAIT(request, status, ierr)
    call MPI_BARRIER(copy, ierr)
    call MPI_COMM_FREE(copy, ierr)
    call MPI_FINALIZE(ierr)
end program
