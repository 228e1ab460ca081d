! SPDX-License-Identifier: Apache-2.0
! Attributes that Fortran sets and C reads and the other way round, also of the address of a number of
! Fortran's, those of a window, and a generalized request with functions in Fortran; again and again,
! with some that live all the while.
!
!     attributes_fortran ROUNDS
module kept
    implicit none
    integer :: copied = 0, deleted = 0, queried = 0, freed = 0, canceled = 0
end module

subroutine copy_double(comm, keyval, extra, value_in, value_out, flag, ierr)
    use kept
    implicit none
    include 'mpif.h'
    integer :: comm, keyval, ierr
    integer(kind=MPI_ADDRESS_KIND) :: extra, value_in, value_out
    logical :: flag
    copied = copied + 1
    value_out = 2 * value_in + extra
    flag = .true.
    ierr = MPI_SUCCESS
end subroutine

subroutine forget(comm, keyval, value, extra, ierr)
    use kept
    implicit none
    include 'mpif.h'
    integer :: comm, keyval, ierr
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    if (mod(value, 7_MPI_ADDRESS_KIND) == 0) deleted = deleted + 1
    ierr = MPI_SUCCESS
end subroutine

subroutine query(extra, status, ierr)
    use kept
    implicit none
    include 'mpif.h'
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: status(MPI_STATUS_SIZE), ierr
    if (extra == 17) queried = queried + 1
    status(MPI_SOURCE) = MPI_UNDEFINED
    status(MPI_TAG) = MPI_UNDEFINED
    call MPI_STATUS_SET_CANCELLED(status, .false., ierr)
    call MPI_STATUS_SET_ELEMENTS(status, MPI_BYTE, 3, ierr)
    ierr = MPI_SUCCESS
end subroutine

subroutine release(extra, ierr)
    use kept
    implicit none
    include 'mpif.h'
    integer(kind=MPI_ADDRESS_KIND) :: extra
    integer :: ierr
    if (extra == 17) freed = freed + 1
    ierr = MPI_SUCCESS
end subroutine

subroutine cancel(extra, complete, ierr)
    use kept
    implicit none
    include 'mpif.h'
    integer(kind=MPI_ADDRESS_KIND) :: extra
    logical :: complete
    integer :: ierr
    if (extra == 17 .and. .not. complete) canceled = canceled + 1
    ierr = MPI_SUCCESS
end subroutine

program attributes_fortran
    use kept
    use, intrinsic :: iso_c_binding
    implicit none
    include 'mpif.h'
    external copy_double, forget, query, release, cancel

    ! In C; handles are numbers there, too.
    interface
        function usleep(microseconds) bind(C, name="usleep") result(error)
            import c_int
            integer(c_int), value :: microseconds
            integer(c_int) :: error
        end function
        function c_get(comm, keyval, value, flag) bind(C, name="MPI_Comm_get_attr") result(error)
            import c_int, c_ptr
            integer(c_int), value :: comm, keyval
            type(c_ptr), intent(out) :: value
            integer(c_int), intent(out) :: flag
            integer(c_int) :: error
        end function
        function c_set(comm, keyval, value) bind(C, name="MPI_Comm_set_attr") result(error)
            import c_int, c_ptr
            integer(c_int), value :: comm, keyval
            type(c_ptr), value :: value
            integer(c_int) :: error
        end function
    end interface

    integer :: ierr, rank, ranks, rounds, round, keyval, same, type_keyval, win_keyval, comm, copy, win
    integer :: request, status(MPI_STATUS_SIZE), total, old_value, row, row_copy, later, alias, lasting
    integer(kind=MPI_ADDRESS_KIND) :: value, extra, state, base
    integer, target :: something = 5
    integer(kind=MPI_ADDRESS_KIND) :: memory(4)
    integer(c_intptr_t) :: pi
    integer(c_int), pointer :: seen
    type(c_ptr) :: found, kept_at
    integer(c_int) :: is_set
    logical :: flag
    character(len=20) :: word

    call get_command_argument(1, word)
    read (word, *) rounds
    call MPI_INIT(ierr)
    call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
    call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
    extra = 0
    call MPI_COMM_CREATE_KEYVAL(copy_double, forget, keyval, extra, ierr)
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, same, extra, ierr)
    ! That of types takes its place in the library.
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, later, extra, ierr)
    call MPI_COMM_FREE_KEYVAL(later, ierr)
    call MPI_TYPE_CREATE_KEYVAL(MPI_TYPE_DUP_FN, MPI_TYPE_NULL_DELETE_FN, type_keyval, extra, ierr)
    call MPI_WIN_CREATE_KEYVAL(MPI_WIN_NULL_COPY_FN, MPI_WIN_NULL_DELETE_FN, win_keyval, extra, ierr)
    ! After a restart it is made before those of types and windows, whose numbers it must leave to them.
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_NULL_COPY_FN, MPI_COMM_NULL_DELETE_FN, later, extra, ierr)
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, alias, extra, ierr)
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, lasting, extra, ierr)
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
    value = -1234567890123_MPI_ADDRESS_KIND
    call MPI_COMM_SET_ATTR(comm, same, value, ierr)
    call MPI_COMM_SET_ATTR(comm, later, value + 3, ierr)
    if (c_get(comm, later, kept_at, is_set) /= MPI_SUCCESS .or. is_set == 0) call fail('C finds none')
    if (c_set(comm, lasting, kept_at) /= MPI_SUCCESS) call fail('C sets what it found')
    call MPI_TYPE_CONTIGUOUS(3, MPI_INTEGER, row, ierr)
    call MPI_TYPE_COMMIT(row, ierr)
    call MPI_TYPE_SET_ATTR(row, type_keyval, value + 1, ierr)
    call MPI_WIN_CREATE(memory, 32_MPI_ADDRESS_KIND, 8, MPI_INFO_NULL, comm, win, ierr)
    call MPI_WIN_SET_ATTR(win, win_keyval, value + 2, ierr)

    do round = 1, rounds
        ! Set in Fortran, read in both.
        value = 7 * round
        call MPI_COMM_SET_ATTR(comm, keyval, value, ierr)
        ! In C its address becomes attributes, which end before it.
        if (c_get(comm, keyval, found, is_set) /= MPI_SUCCESS .or. is_set == 0) call fail('C finds none')
        if (c_set(comm, alias, found) /= MPI_SUCCESS) call fail('C sets what it found')
        call MPI_COMM_DUP(comm, copy, ierr)
        call same_address(comm, alias, found, 'an address of a number')
        call same_address(copy, alias, found, 'a copied address of a number')
        call MPI_COMM_DELETE_ATTR(copy, alias, ierr)
        call MPI_COMM_DELETE_ATTR(comm, alias, ierr)
        call same_address(comm, lasting, kept_at, 'an address of a number, all the while')
        call same_address(copy, lasting, kept_at, 'an address of a number, all the while, copied')
        if (number_at(kept_at) /= -1234567890120_MPI_ADDRESS_KIND) call fail('a number, by its address')
        call MPI_COMM_SET_ATTR(copy, same, -1_MPI_ADDRESS_KIND, ierr)
        call MPI_COMM_SET_ATTR(copy, later, -2_MPI_ADDRESS_KIND, ierr)
        call MPI_COMM_GET_ATTR(comm, keyval, value, flag, ierr)
        if (.not. flag .or. value /= 7 * round) call fail('a number, once C is rid of its address')
        call MPI_COMM_GET_ATTR(copy, keyval, value, flag, ierr)
        if (.not. flag .or. value /= 14 * round) call fail('a copied number')
        if (c_get(comm, keyval, found, is_set) /= MPI_SUCCESS .or. is_set == 0) call fail('C finds none')
        if (number_at(found) /= 7 * round) call fail('a number in C')
        if (c_get(copy, keyval, found, is_set) /= MPI_SUCCESS .or. is_set == 0) call fail('C finds none')
        if (number_at(found) /= 14 * round) call fail('a copied number in C')

        call MPI_COMM_GET_ATTR(comm, later, value, flag, ierr)
        if (.not. flag .or. value /= -1234567890120_MPI_ADDRESS_KIND) call fail('by the last keyval')

        ! A copy by the function for that is one of its own.
        call MPI_COMM_SET_ATTR(copy, same, int(round, MPI_ADDRESS_KIND), ierr)
        call MPI_COMM_GET_ATTR(comm, same, value, flag, ierr)
        if (.not. flag .or. value /= -1234567890123_MPI_ADDRESS_KIND) call fail('what lives all the while')
        if (c_get(comm, same, found, is_set) /= MPI_SUCCESS .or. is_set == 0) call fail('C finds none')
        if (number_at(found) /= -1234567890123_MPI_ADDRESS_KIND) call fail('what lives all the while, in C')
        call MPI_COMM_FREE(copy, ierr)
        if (copied /= round .or. deleted /= 2 * round - 1) call fail('calls of functions')

        ! In C set, in Fortran an address.
        if (c_set(comm, same, c_loc(something)) /= MPI_SUCCESS) call fail('C sets')
        call MPI_COMM_GET_ATTR(comm, same, value, flag, ierr)
        if (value /= transfer(c_loc(something), pi)) call fail('an address of C')
        if (c_get(comm, same, found, is_set) /= MPI_SUCCESS) call fail('C finds none')
        call c_f_pointer(found, seen)
        if (seen /= 5) call fail('what C has set')
        call MPI_COMM_SET_ATTR(comm, same, -1234567890123_MPI_ADDRESS_KIND, ierr)

        ! Default integers, in the old functions.
        call MPI_ATTR_PUT(comm, keyval, 7 * round, ierr)
        call MPI_ATTR_GET(comm, keyval, old_value, flag, ierr)
        if (.not. flag .or. old_value /= 7 * round) call fail('a short number')
        deleted = deleted - 1

        call MPI_TYPE_DUP(row, row_copy, ierr)
        call MPI_TYPE_GET_ATTR(row_copy, type_keyval, value, flag, ierr)
        if (.not. flag .or. value /= -1234567890122_MPI_ADDRESS_KIND) call fail('of a type')
        call MPI_TYPE_FREE(row_copy, ierr)

        call MPI_WIN_GET_ATTR(win, win_keyval, value, flag, ierr)
        if (.not. flag .or. value /= -1234567890121_MPI_ADDRESS_KIND) call fail('of a window')
        call MPI_GET_ADDRESS(memory, base, ierr)
        call MPI_WIN_GET_ATTR(win, MPI_WIN_BASE, value, flag, ierr)
        if (.not. flag .or. value /= base) call fail('the base')
        call MPI_WIN_GET_ATTR(win, MPI_WIN_SIZE, value, flag, ierr)
        if (.not. flag .or. value /= 32) call fail('the size')
        call MPI_WIN_GET_ATTR(win, MPI_WIN_DISP_UNIT, value, flag, ierr)
        if (.not. flag .or. value /= 8) call fail('the unit')
        call MPI_WIN_GET_ATTR(win, MPI_WIN_CREATE_FLAVOR, value, flag, ierr)
        if (.not. flag .or. value /= MPI_WIN_FLAVOR_CREATE) call fail('the flavor')
        call MPI_COMM_GET_ATTR(comm, MPI_TAG_UB, value, flag, ierr)
        if (.not. flag .or. value < 32767) call fail('the largest tag')

        state = 17
        call MPI_GREQUEST_START(query, release, cancel, state, request, ierr)
        call MPI_CANCEL(request, ierr)
        call MPI_GREQUEST_COMPLETE(request, ierr)
        call MPI_WAIT(request, status, ierr)
        if (queried /= round .or. freed /= round .or. canceled /= round) call fail('a request')

        call MPI_ALLREDUCE(round, total, 1, MPI_INTEGER, MPI_SUM, comm, ierr)
        if (total /= ranks * round) call fail('a sum')
        if (usleep(200) /= 0) call fail('a pause')
    end do
    call wait_to_end()
    call MPI_WIN_FREE(win, ierr)
    call MPI_TYPE_FREE(row, ierr)
    call MPI_COMM_FREE(comm, ierr)
    print '(i0,": ",z16.16)', rank, deleted
    call MPI_FINALIZE(ierr)

contains

    include 'wait_to_end.f90'

    subroutine fail(what)
        character(len=*) :: what
        integer :: error
        write (0, *) 'not as it should be: ', what, value, copied, deleted, queried, freed, canceled
        call MPI_ABORT(MPI_COMM_WORLD, 3, error)
    end subroutine

    ! What C finds, and Fortran as a number.
    subroutine same_address(owner, key, expected, what)
        integer :: owner, key
        type(c_ptr) :: expected, there
        character(len=*) :: what
        if (c_get(owner, key, there, is_set) /= MPI_SUCCESS .or. is_set == 0) call fail('C finds none')
        if (transfer(there, pi) /= transfer(expected, pi)) call fail(what // ', in C')
        call MPI_COMM_GET_ATTR(owner, key, value, flag, ierr)
        if (.not. flag .or. value /= transfer(expected, pi)) call fail(what)
    end subroutine

    function number_at(place)
        type(c_ptr) :: place
        integer(kind=MPI_ADDRESS_KIND) :: number_at
        integer(c_intptr_t), pointer :: there
        call c_f_pointer(place, there)
        number_at = there
    end function
end program
