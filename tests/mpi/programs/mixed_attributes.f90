! SPDX-License-Identifier: Apache-2.0
! Attributes with Open MPI that Fortran sets and C reads, and the other way round, by keyvals of both;
! again and again, with some that live all the while. C also sets the address of a number of Fortran's.
!
!     mixed_attributes ROUNDS
module counted
    implicit none
    integer :: copied = 0, deleted = 0
end module

subroutine copy_double(owner, keyval, extra, value_in, value_out, flag, ierr)
    use counted
    implicit none
    include 'mpif.h'
    integer :: owner, keyval, ierr
    integer(kind=MPI_ADDRESS_KIND) :: extra, value_in, value_out
    logical :: flag
    copied = copied + 1
    value_out = 2 * value_in + extra
    flag = .true.
    ierr = MPI_SUCCESS
end subroutine

subroutine forget(owner, keyval, value, extra, ierr)
    use counted
    implicit none
    include 'mpif.h'
    integer :: owner, keyval, ierr
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    if (mod(value, 7_MPI_ADDRESS_KIND) == 0) deleted = deleted + 1
    ierr = MPI_SUCCESS
end subroutine

program mixed_attributes
    use counted
    use, intrinsic :: iso_c_binding
    implicit none
    include 'mpif.h'
    external copy_double, forget

    ! In C, where handles are pointers.
    interface
        function usleep(microseconds) bind(C) result(error)
            import c_int
            integer(c_int), value :: microseconds
            integer(c_int) :: error
        end function
        function comm_in_c(number) bind(C, name="MPI_Comm_f2c") result(handle)
            import c_int, c_ptr
            integer(c_int), value :: number
            type(c_ptr) :: handle
        end function
        function type_in_c(number) bind(C, name="MPI_Type_f2c") result(handle)
            import c_int, c_ptr
            integer(c_int), value :: number
            type(c_ptr) :: handle
        end function
        function c_get(comm, keyval, value, flag) bind(C, name="MPI_Comm_get_attr") result(error)
            import c_int, c_ptr
            type(c_ptr), value :: comm
            integer(c_int), value :: keyval
            type(c_ptr), intent(out) :: value
            integer(c_int), intent(out) :: flag
            integer(c_int) :: error
        end function
        function c_type_get(type, keyval, value, flag) bind(C, name="MPI_Type_get_attr") result(error)
            import c_int, c_ptr
            type(c_ptr), value :: type
            integer(c_int), value :: keyval
            type(c_ptr), intent(out) :: value
            integer(c_int), intent(out) :: flag
            integer(c_int) :: error
        end function
        function c_set(comm, keyval, value) bind(C, name="MPI_Comm_set_attr") result(error)
            import c_int, c_ptr
            type(c_ptr), value :: comm, value
            integer(c_int), value :: keyval
            integer(c_int) :: error
        end function
        function c_create(copy, remove, keyval, extra) bind(C, name="MPI_Comm_create_keyval") result(error)
            import c_int, c_ptr, c_funptr
            type(c_funptr), value :: copy, remove
            integer(c_int), intent(out) :: keyval
            type(c_ptr), value :: extra
            integer(c_int) :: error
        end function
        subroutine dup_in_c() bind(C, name="OMPI_C_MPI_COMM_DUP_FN")
        end subroutine
        subroutine remove_in_c() bind(C, name="OMPI_C_MPI_COMM_NULL_DELETE_FN")
        end subroutine
    end interface

    integer(kind=MPI_ADDRESS_KIND), parameter :: long = -1234567890123_MPI_ADDRESS_KIND
    integer :: ierr, rank, ranks, rounds, round, comm, copy, row, row_copy, total, old_value
    integer :: keyval, same, of_c, type_keyval, short, alias, kept
    integer(kind=MPI_ADDRESS_KIND) :: value, extra
    integer, target :: something = 5
    type(c_ptr) :: found, kept_at
    integer(c_int) :: is_set
    integer(c_intptr_t) :: pi
    character(len=20) :: word
    logical :: flag

    call get_command_argument(1, word)
    read (word, *) rounds
    call MPI_INIT(ierr)
    call MPI_COMM_RANK(MPI_COMM_WORLD, rank, ierr)
    call MPI_COMM_SIZE(MPI_COMM_WORLD, ranks, ierr)
    extra = 0
    call MPI_COMM_CREATE_KEYVAL(copy_double, forget, keyval, extra, ierr)
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, same, extra, ierr)
    call MPI_COMM_CREATE_KEYVAL(MPI_COMM_DUP_FN, MPI_COMM_NULL_DELETE_FN, short, extra, ierr)
    call MPI_TYPE_CREATE_KEYVAL(copy_double, forget, type_keyval, extra, ierr)
    if (c_create(c_funloc(dup_in_c), c_funloc(remove_in_c), of_c, c_null_ptr) /= MPI_SUCCESS) call fail('a keyval of C')
    if (c_create(c_funloc(dup_in_c), c_funloc(remove_in_c), alias, c_null_ptr) /= MPI_SUCCESS) call fail('a keyval of C')
    if (c_create(c_funloc(dup_in_c), c_funloc(remove_in_c), kept, c_null_ptr) /= MPI_SUCCESS) call fail('a keyval of C')
    call MPI_COMM_DUP(MPI_COMM_WORLD, comm, ierr)
    call MPI_COMM_SET_ATTR(comm, of_c, long, ierr)
    call MPI_ATTR_PUT(comm, short, -77, ierr)
    if (c_set(comm_in_c(comm), same, c_loc(something)) /= MPI_SUCCESS) call fail('C sets')
    if (c_get(comm_in_c(comm), of_c, kept_at, is_set) /= MPI_SUCCESS) call fail('C finds')
    if (c_set(comm_in_c(comm), kept, kept_at) /= MPI_SUCCESS) call fail('C sets what it found')
    call MPI_TYPE_CONTIGUOUS(3, MPI_INTEGER, row, ierr)
    call MPI_TYPE_COMMIT(row, ierr)
    call MPI_TYPE_SET_ATTR(row, type_keyval, long, ierr)

    do round = 1, rounds
        ! Set in Fortran by its own keyval, read in both; the copy, too.
        call MPI_COMM_SET_ATTR(comm, keyval, int(7 * round, MPI_ADDRESS_KIND), ierr)
        ! In C its address becomes attributes, which end before it.
        if (c_get(comm_in_c(comm), keyval, found, is_set) /= MPI_SUCCESS) call fail('C finds')
        if (c_set(comm_in_c(comm), alias, found) /= MPI_SUCCESS) call fail('C sets what it found')
        call MPI_COMM_DUP(comm, copy, ierr)
        call same_address(comm, alias, found, 'an address of a number')
        call same_address(copy, alias, found, 'a copied address of a number')
        call MPI_COMM_DELETE_ATTR(copy, alias, ierr)
        call MPI_COMM_DELETE_ATTR(comm, alias, ierr)
        call same_address(comm, kept, kept_at, 'an address of a number, all the while')
        call same_address(copy, kept, kept_at, 'an address of a number, all the while, copied')
        if (number_at(kept_at) /= long) call fail('a number, by its address')
        call MPI_COMM_SET_ATTR(copy, of_c, -1_MPI_ADDRESS_KIND, ierr)
        call MPI_COMM_SET_ATTR(copy, same, -2_MPI_ADDRESS_KIND, ierr)
        call in_both(comm, keyval, int(7 * round, MPI_ADDRESS_KIND), 'a number, once C is rid of its address')
        if (c_set(comm_in_c(copy), same, c_loc(something)) /= MPI_SUCCESS) call fail('C sets')
        call in_both(comm, keyval, int(7 * round, MPI_ADDRESS_KIND), 'a number')
        call in_both(copy, keyval, int(14 * round, MPI_ADDRESS_KIND), 'a copied number')
        ! By one of C.
        call in_both(comm, of_c, long, 'by a keyval of C')
        call MPI_COMM_SET_ATTR(copy, of_c, int(round, MPI_ADDRESS_KIND), ierr)
        call in_both(comm, of_c, long, 'by a keyval of C, once its copy is another')
        call in_both(copy, of_c, int(round, MPI_ADDRESS_KIND), 'the copy')
        ! Set in C by a keyval of Fortran.
        call MPI_COMM_GET_ATTR(comm, same, value, flag, ierr)
        if (.not. flag .or. value /= transfer(c_loc(something), pi)) call fail('an address of C')
        if (number_of(comm, same) /= transfer(c_loc(something), pi)) call fail('what C has set')
        call MPI_COMM_GET_ATTR(copy, same, value, flag, ierr)
        if (.not. flag .or. value /= transfer(c_loc(something), pi)) call fail('a copied address of C')
        ! A default integer.
        call MPI_ATTR_GET(comm, short, old_value, flag, ierr)
        if (.not. flag .or. old_value /= -77) call fail('a short number')
        call MPI_ATTR_GET(copy, short, old_value, flag, ierr)
        if (.not. flag .or. old_value /= -77) call fail('a copied short number')
        call MPI_COMM_FREE(copy, ierr)
        ! Of a type.
        call MPI_TYPE_DUP(row, row_copy, ierr)
        call type_in_both(row, long, 'of a type')
        call type_in_both(row_copy, 2 * long, 'of a copied type')
        call MPI_TYPE_FREE(row_copy, ierr)
        if (copied /= 2 * round) call fail('calls of functions')

        call MPI_ALLREDUCE(round, total, 1, MPI_INTEGER, MPI_SUM, comm, ierr)
        if (total /= ranks * round) call fail('a sum')
        if (usleep(200) /= 0) call fail('a pause')
    end do
    call wait_to_end()
    call MPI_TYPE_FREE(row, ierr)
    call MPI_COMM_FREE(comm, ierr)
    print '(i0,": ",z16.16)', rank, deleted
    call MPI_FINALIZE(ierr)

contains

    include 'wait_to_end.f90'

    subroutine fail(what)
        character(len=*) :: what
        integer :: error
        write (0, *) 'not as it should be: ', what, round, value, copied, deleted
        call MPI_ABORT(MPI_COMM_WORLD, 3, error)
    end subroutine

    subroutine in_both(owner, key, expected, what)
        integer :: owner, key
        integer(kind=MPI_ADDRESS_KIND) :: expected
        character(len=*) :: what
        type(c_ptr) :: found
        integer(c_int) :: is_set
        call MPI_COMM_GET_ATTR(owner, key, value, flag, ierr)
        if (.not. flag .or. value /= expected) call fail(what)
        if (c_get(comm_in_c(owner), key, found, is_set) /= MPI_SUCCESS .or. is_set == 0) call fail(what)
        value = number_at(found)
        if (value /= expected) call fail(what // ', in C')
    end subroutine

    subroutine type_in_both(owner, expected, what)
        integer :: owner
        integer(kind=MPI_ADDRESS_KIND) :: expected
        character(len=*) :: what
        type(c_ptr) :: found
        integer(c_int) :: is_set
        call MPI_TYPE_GET_ATTR(owner, type_keyval, value, flag, ierr)
        if (.not. flag .or. value /= expected) call fail(what)
        if (c_type_get(type_in_c(owner), type_keyval, found, is_set) /= MPI_SUCCESS .or. is_set == 0) call fail(what)
        value = number_at(found)
        if (value /= expected) call fail(what // ', in C')
    end subroutine

    ! What C finds, and Fortran as a number.
    subroutine same_address(owner, key, expected, what)
        integer :: owner, key
        type(c_ptr) :: expected
        character(len=*) :: what
        if (number_of(owner, key) /= transfer(expected, pi)) call fail(what // ', in C')
        call MPI_COMM_GET_ATTR(owner, key, value, flag, ierr)
        if (.not. flag .or. value /= transfer(expected, pi)) call fail(what)
    end subroutine

    ! The word that C finds.
    function number_of(owner, key) result(number)
        integer :: owner, key
        integer(c_intptr_t) :: number
        type(c_ptr) :: found
        integer(c_int) :: is_set
        number = 0
        if (c_get(comm_in_c(owner), key, found, is_set) == MPI_SUCCESS .and. is_set /= 0) number = transfer(found, number)
    end function

    function number_at(place) result(number)
        type(c_ptr) :: place
        integer(kind=MPI_ADDRESS_KIND) :: number
        integer(c_intptr_t), pointer :: there
        call c_f_pointer(place, there)
        number = there
    end function
end program
