// SPDX-License-Identifier: Apache-2.0
//
// How a thread that was made to run other code gets back to its own, even if nobody is there any
// more to bring it back: on its stack lies what the kernel puts there for a signal handler, and the
// foreign code returns to rt_sigreturn.
//
//     WayBack::Block block = WayBack::make(registers, vector_state, mask, sigreturn);
//     write_memory(pid, block.at, &block.bytes[0], block.bytes.size());
//     registers.rsp = block.stack().number();
#pragma once

#include "base/remote_address.hpp"
#include "protocol/attached.hpp"

#include <cstdint>
#include <string>
#include <sys/user.h>
#include <vector>

namespace cryo::capture {

struct WayBack {
    RemoteAddress at;
    std::vector<char> bytes;

    RemoteAddress stack() const;   // the return address is on top
    RemoteAddress context() const; // the stack when rt_sigreturn is called
    RemoteAddress order() const;   // room for an AttachOrder
    RemoteAddress path() const;    // the path, with its 0
    static constexpr size_t longest_path = 511;

    static WayBack make(const user_regs_struct &registers, const std::vector<char> &vector_state,
                        uint64_t mask, RemoteAddress sigreturn, const std::string &path);
};

// Whether the kernel is about to begin the interrupted system call anew, if no handler runs.
bool is_begun_anew(const user_regs_struct &registers);
// Whether the kernel will do that by another call, restart_syscall(2), which filters see.
bool is_begun_anew_by_call(const user_regs_struct &registers);
// What the kernel does with the registers of a thread whose system call was interrupted when it
// goes on without a signal; a call that waits with a time limit begins anew.
void begin_call_anew(user_regs_struct &registers);
// Of the calls that no signal restarts, and that were interrupted by the tracer alone. `pending`:
// a signal is there that interrupts them rightly.
void hide_interruption(user_regs_struct &registers, bool pending);

} // namespace cryo::capture
