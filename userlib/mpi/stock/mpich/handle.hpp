// SPDX-License-Identifier: Apache-2.0
//
// A distinct type for each kind of MPICH handle; all are `int` in MPICH's own header. For a caller
// it is an int: a trivial class of four bytes travels in the same register.
#pragma once

#include <cstddef>
#include <cstdint>

#define CRYO_MPI_HANDLE(Name)                                                                      \
    struct Name : cryo::mpi::Number {                                                              \
        Name() = default;                                                                          \
        constexpr Name(std::nullptr_t) : Number{0} {}                                              \
        explicit constexpr Name(int number) : Number{number} {}                                    \
        explicit constexpr Name(unsigned number) : Number{static_cast<int>(number)} {}             \
        explicit Name(void *word) : Number{static_cast<int>(reinterpret_cast<uintptr_t>(word))} {} \
    }

namespace cryo::mpi {

// Object::real stores the library's handle in a word, which may be a pointer.
struct Number {
    int value;

    operator void *() const
    {
        return reinterpret_cast<void *>(uintptr_t{static_cast<unsigned>(value)});
    }
    explicit constexpr operator int() const { return value; }
};

} // namespace cryo::mpi
