// SPDX-License-Identifier: Apache-2.0
#include "capture/tracing/way_back.hpp"

#include "sys/newer_numbers.hpp"

#include <algorithm>
#include <cerrno>
#include <cpuid.h>
#include <cstring>
#include <sys/syscall.h>

namespace cryo::capture {

namespace {

constexpr uint64_t red_zone = 128;
constexpr uint64_t alignment = 64; // of the vector state

// As the kernel lays it out (struct rt_sigframe up to the mask).
struct Context {
    uint64_t flags = 0, link = 0;
    uint64_t stack_at = 0;
    int32_t stack_flags = 0, unused = 0;
    uint64_t stack_size = 0;
    uint64_t r8, r9, r10, r11, r12, r13, r14, r15;
    uint64_t rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, eflags;
    uint16_t cs, gs, fs, ss;
    uint64_t err = 0, trapno = 0, oldmask = 0, cr2 = 0;
    uint64_t vector_state = 0;
    uint64_t reserved[8] = {};
    uint64_t mask = 0;
};
static_assert(sizeof(Context) == 304);

struct Block {
    uint64_t pad = 0;
    uint64_t sigreturn = 0; // the stack's top is here
    Context context;
    agent::AttachOrder order;
    char path[WayBack::longest_path + 1] = {};
};

constexpr size_t block_size = (sizeof(Block) + alignment - 1) / alignment * alignment;

// Told at the end of the part of the vector state that is as old as the processor's SSE.
struct Extent {
    uint32_t magic = 0x46505853; // FP_XSTATE_MAGIC1
    uint32_t whole_size = 0;
    uint64_t features = 0;
    uint32_t size = 0;
};
constexpr size_t extent_at = 464;
constexpr uint32_t end_magic = 0x46505845; // FP_XSTATE_MAGIC2

// Without what a process has to ask the kernel for (AMX), unless it is in use.
constexpr uint64_t asked_for = uint64_t{3} << 17;

uint64_t features_of_system()
{
    uint32_t low;
    uint32_t high;
    asm volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return uint64_t{high} << 32 | low;
}

void add_vector_state(std::vector<char> &bytes, const std::vector<char> &state)
{
    constexpr size_t header_end = 576;
    constexpr size_t in_use_at = 512;
    uint64_t in_use = 0;
    if (state.size() < header_end)
        return;
    memcpy(&in_use, &state[in_use_at], sizeof(in_use));
    Extent extent;
    extent.features = features_of_system() & ~(asked_for & ~in_use);
    size_t size = header_end;
    for (unsigned feature = 2; feature < 63; feature++) {
        unsigned length = 0;
        unsigned offset = 0;
        unsigned c = 0;
        unsigned d = 0;
        if ((extent.features >> feature & 1) != 0 &&
            __get_cpuid_count(0xd, feature, &length, &offset, &c, &d) != 0)
            size = std::max<size_t>(size, offset + length);
    }
    size = std::min(size, state.size());
    extent.size = static_cast<uint32_t>(size);
    extent.whole_size = extent.size + sizeof(end_magic);
    const size_t at = bytes.size();
    bytes.insert(bytes.end(), state.begin(), state.begin() + static_cast<ptrdiff_t>(size));
    memset(&bytes[at + extent_at], 0, in_use_at - extent_at);
    memcpy(&bytes[at + extent_at], &extent, sizeof(extent));
    bytes.resize(bytes.size() + sizeof(end_magic));
    memcpy(&bytes[at + size], &end_magic, sizeof(end_magic));
}

bool is_error(const user_regs_struct &registers, int error)
{
    return registers.rax == static_cast<unsigned long long>(-static_cast<long long>(error));
}

bool in_call(const user_regs_struct &registers)
{
    return static_cast<long long>(registers.orig_rax) >= 0;
}

void set_back(user_regs_struct &registers)
{
    registers.rax = registers.orig_rax;
    registers.rip -= 2;
    registers.orig_rax = ~0ULL;
}

// Calls that a tracer's stop ends with EINTR, although no signal is there. Those on descriptors are
// among them where the descriptor is a socket with a time limit, or belongs to inotify.
bool ends_by_stop(unsigned long long number)
{
    switch (number) {
    case SYS_rt_sigtimedwait:
    case SYS_semop:
    case SYS_semtimedop:
    case SYS_msgrcv:
    case SYS_msgsnd:
    case SYS_epoll_wait:
    case SYS_epoll_pwait:
    case sys::epoll_pwait2_number:
    case SYS_io_getevents:
    case SYS_io_pgetevents:
    case SYS_io_uring_enter:
    case SYS_read:
    case SYS_readv:
    case SYS_recvfrom:
    case SYS_recvmsg:
    case SYS_recvmmsg:
    case SYS_accept:
    case SYS_accept4:
    case SYS_write:
    case SYS_writev:
    case SYS_sendto:
    case SYS_sendmsg:
    case SYS_sendmmsg:
    case SYS_connect:
    case SYS_futex:
        return true;
    default:
        return false;
    }
}

} // namespace

bool is_begun_anew(const user_regs_struct &registers)
{
    constexpr int restart[] = {512, 513, 514, 516}; // ERESTARTSYS and the like
    return in_call(registers) && std::any_of(std::begin(restart), std::end(restart),
                                             [&](int error) { return is_error(registers, error); });
}

bool is_begun_anew_by_call(const user_regs_struct &registers)
{
    constexpr int restart_block = 516; // ERESTART_RESTARTBLOCK
    return in_call(registers) && is_error(registers, restart_block);
}

void begin_call_anew(user_regs_struct &registers)
{
    if (is_begun_anew(registers))
        set_back(registers);
}

void hide_interruption(user_regs_struct &registers, bool pending)
{
    constexpr unsigned long long user_code = 0x33; // calls of 32-bit code have other numbers
    if (registers.cs == user_code && in_call(registers) && !pending && is_error(registers, EINTR) &&
        ends_by_stop(registers.orig_rax))
        set_back(registers);
}

RemoteAddress WayBack::stack() const
{
    return at + offsetof(Block, sigreturn);
}

RemoteAddress WayBack::context() const
{
    return at + offsetof(Block, context);
}

RemoteAddress WayBack::order() const
{
    return at + offsetof(Block, order);
}

RemoteAddress WayBack::path() const
{
    return at + offsetof(Block, path);
}

WayBack WayBack::make(const user_regs_struct &registers, const std::vector<char> &vector_state,
                      uint64_t mask, RemoteAddress sigreturn, const std::string &path)
{
    constexpr uint64_t has_vector_state = 1; // UC_FP_XSTATE
    constexpr uint64_t has_ss = 2 | 4;       // UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS
    constexpr int no_such_flag = 0x4000;     // the kernel leaves the alternate stack as it is
    user_regs_struct r = registers;
    begin_call_anew(r);
    WayBack way;
    way.bytes.resize(block_size);
    add_vector_state(way.bytes, vector_state);
    way.at = RemoteAddress((registers.rsp - red_zone - way.bytes.size()) & ~(alignment - 1));

    Block block;
    block.sigreturn = sigreturn.number();
    Context &c = block.context;
    c.flags = has_vector_state | has_ss;
    c.stack_flags = no_such_flag;
    c.r8 = r.r8;
    c.r9 = r.r9;
    c.r10 = r.r10;
    c.r11 = r.r11;
    c.r12 = r.r12;
    c.r13 = r.r13;
    c.r14 = r.r14;
    c.r15 = r.r15;
    c.rdi = r.rdi;
    c.rsi = r.rsi;
    c.rbp = r.rbp;
    c.rbx = r.rbx;
    c.rdx = r.rdx;
    c.rax = r.rax;
    c.rcx = r.rcx;
    c.rsp = r.rsp;
    c.rip = r.rip;
    c.eflags = r.eflags;
    c.cs = static_cast<uint16_t>(r.cs);
    c.gs = static_cast<uint16_t>(r.gs);
    c.fs = static_cast<uint16_t>(r.fs);
    c.ss = static_cast<uint16_t>(r.ss);
    c.vector_state = way.bytes.size() > block_size ? way.at.number() + block_size : 0;
    c.mask = mask;
    memcpy(block.path, path.c_str(), std::min(path.size(), longest_path));
    memcpy(way.bytes.data(), &block, sizeof(block));
    return way;
}

} // namespace cryo::capture
