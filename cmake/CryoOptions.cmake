# SPDX-License-Identifier: Apache-2.0
# How Cryo's own code is compiled. Link every target of ours to cryo_options.

set(CRYO_SANITIZE "" CACHE STRING "Sanitizers for everything, as in -fsanitize= (address,undefined)")
# The presets turn it on. A packager's compiler may warn of what ours does not.
option(CRYO_WERROR "Warnings are errors" OFF)
if(CRYO_WERROR)
    set(CRYO_WARNINGS_ARE_ERRORS -Werror)
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_C_STANDARD 99)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON) # clang-tidy and editors read them
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

# Assertions stay in every build: a checkpointer that goes on after a broken invariant is worse
# than one that stops.
string(REPLACE "-DNDEBUG" "" CMAKE_CXX_FLAGS_RELWITHDEBINFO "${CMAKE_CXX_FLAGS_RELWITHDEBINFO}")
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELWITHDEBINFO "${CMAKE_C_FLAGS_RELWITHDEBINFO}")

# For code that runs without libc, or with the thread-local storage of another: without what
# distributions turn on for all code (dpkg-buildflags, or the compiler itself). Fortified headers
# would also define functions that the agent defines. Behind CMAKE_CXX_FLAGS, so these win.
set(CRYO_BARE_FLAGS -U_FORTIFY_SOURCE -fno-stack-protector -fno-stack-clash-protection
    -fcf-protection=none)

add_library(cryo_options INTERFACE)
target_compile_options(cryo_options INTERFACE
    -Wall -Wextra ${CRYO_WARNINGS_ARE_ERRORS} -Wshadow -Wvla -Wformat=2
    $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor -Wold-style-cast>)
target_compile_definitions(cryo_options INTERFACE _GNU_SOURCE)
target_include_directories(cryo_options INTERFACE ${PROJECT_SOURCE_DIR}/userlib
    ${PROJECT_SOURCE_DIR}/userlib/include)

if(CRYO_SANITIZE)
    target_compile_options(cryo_options INTERFACE
        -fsanitize=${CRYO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_link_options(cryo_options INTERFACE -fsanitize=${CRYO_SANITIZE})
endif()

# cryo_optimise_sanitized(target...): of libraries that pass over megabytes or run thousands of steps in a
# unit test. Sanitized and not optimised at all they are ten to thirty times as slow as a release; all
# others build faster as they are.
function(cryo_optimise_sanitized)
    if(CRYO_SANITIZE AND CMAKE_BUILD_TYPE STREQUAL "Debug")
        foreach(target IN LISTS ARGN)
            target_compile_options(${target} PRIVATE -O1)
        endforeach()
    endif()
endfunction()
