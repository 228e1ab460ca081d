// SPDX-License-Identifier: Apache-2.0
//
// Crossings between the two worlds of a process, the program's and the capsule's. Each has its own
// thread-local storage, which the FS base points to; a crossing switches the FS base and switches
// it back.
//
//     int rc = capsule::call(send, buffer, count, ...);      // program -> capsule
//     capsule::call_home(handler, &comm, &code);             // capsule -> program, in a callback
//
// Between the two switches there is exactly one call: all arguments are evaluated before, and
// nothing in between may access thread-local storage. The test mpi.gates checks the machine code
// of every instance.
#pragma once

#include <cstdint>
#include <sys/syscall.h>
#include <type_traits>

namespace cryo::capsule {

// A program thread's link to the capsule. Valid for one opening of it.
struct Binding {
    void *fs;        // the capsule's FS base for this thread
    uint64_t opened; // number of the opening it belongs to
};

// Hidden, initial-exec and __thread (never initialized dynamically): access is one load from %fs.
extern __thread Binding binding __attribute__((tls_model("initial-exec"), visibility("hidden")));
extern uint64_t opening __attribute__((visibility("hidden"))); // 0: closed
extern bool have_fsgsbase __attribute__((visibility("hidden")));
extern long way_back_offset __attribute__((visibility("hidden")));

inline bool entered()
{
    return binding.opened == opening && binding.opened != 0;
}

// In every glibc for x86-64, %fs:0x10 holds the thread control block's own address.
[[gnu::always_inline]] inline void *current_fs()
{
    void *fs;
    asm volatile("mov %%fs:0x10, %0" : "=r"(fs));
    return fs;
}

[[gnu::always_inline]] inline void switch_fs(void *fs)
{
    if (__builtin_expect(have_fsgsbase, 1)) {
        asm volatile("wrfsbase %0" : : "r"(fs) : "memory");
        return;
    }
    long result = SYS_arch_prctl;
    asm volatile("syscall"
                 : "+a"(result)
                 : "D"(0x1002L /* ARCH_SET_FS */), "S"(fs)
                 : "rcx", "r11", "memory");
}

template <class R, class... Parameters, class... Arguments>
[[gnu::always_inline]] inline R with_fs(void *there, void *back, R (*function)(Parameters...),
                                        Arguments... arguments)
{
    switch_fs(there);
    if constexpr (std::is_void_v<R>) {
        function(arguments...);
        switch_fs(back);
    } else {
        R result = function(arguments...);
        switch_fs(back);
        return result;
    }
}

// Not inlined, so that all arguments are already in registers or on the stack when it begins.
template <class R, class... Parameters>
[[gnu::noinline]] R gate(R (*function)(Parameters...), Parameters... parameters)
{
    return with_fs(binding.fs, current_fs(), function, parameters...);
}

template <class R, class... Parameters>
[[gnu::always_inline]] inline R call(R (*function)(Parameters...),
                                     std::type_identity_t<Parameters>... parameters)
{
    return gate<R, Parameters...>(function, parameters...);
}

// The program's FS base of a thread inside the capsule; null for a thread of the capsule's own.
[[gnu::always_inline]] inline void *way_back(void *capsule_fs)
{
    return *reinterpret_cast<void **>(static_cast<char *>(capsule_fs) + way_back_offset);
}

template <class R, class... Parameters>
[[gnu::noinline]] R home_gate(R (*function)(Parameters...), Parameters... parameters)
{
    void *inside = current_fs();
    return with_fs(way_back(inside), inside, function, parameters...);
}

// For code that the capsule calls: the function runs with the program's thread-local storage.
template <class R, class... Parameters>
[[gnu::always_inline]] inline R call_home(R (*function)(Parameters...),
                                          std::type_identity_t<Parameters>... parameters)
{
    return home_gate<R, Parameters...>(function, parameters...);
}

} // namespace cryo::capsule
