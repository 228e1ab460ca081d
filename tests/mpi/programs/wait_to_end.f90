! SPDX-License-Identifier: Apache-2.0
! Keeps a job from ending before it is saved, as wait_to_end() of check.h; programs include it after `contains`.
    subroutine wait_to_end()
        use, intrinsic :: iso_c_binding, only: c_int
        interface
            function usleep(microseconds) bind(C)
                import c_int
                integer(c_int), value :: microseconds
                integer(c_int) :: usleep
            end function
        end interface
        character(len=4096) :: hold
        integer :: length
        integer(c_int) :: unused
        logical :: held
        call get_environment_variable('CRYO_HOLD', hold, length)
        held = length > 0
        do while (held)
            inquire (file=hold(:length), exist=held)
            unused = usleep(1000)
        end do
    end subroutine
