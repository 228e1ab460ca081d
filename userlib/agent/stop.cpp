// SPDX-License-Identifier: Apache-2.0
// Stops the program: every thread is brought into the signal handler and parks there.
#include "agent/callbacks.hpp"
#include "agent/directory.hpp"
#include "agent/hearing.hpp"
#include "agent/inherited.hpp"
#include "agent/kept_numbers.hpp"
#include "sys/clock.hpp"
#include "sys/raw.hpp"
#include "sys/rseq_area.hpp"

#include <asm/prctl.h>
#include <cerrno>
#include <fcntl.h>
#include <linux/futex.h>
#include <linux/keyctl.h>
#include <linux/mempolicy.h>
#include <sys/prctl.h>

namespace cryo::agent {

// All zero, so that no late constructor overwrites it after its first use.
constinit State state;

namespace {

void futex_wait(std::atomic<uint32_t> &word, uint32_t seen, long ns)
{
    timespec limit = {ns / 1'000'000'000, ns % 1'000'000'000};
    sys::call(SYS_futex, &word, FUTEX_WAIT_PRIVATE, seen, ns > 0 ? &limit : nullptr, 0, 0);
}

void futex_wake(std::atomic<uint32_t> &word)
{
    sys::call(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
}

alignas(8) char task_buffer[32768];

Slot *slot_of(int tid, size_t &hint)
{
    // The kernel lists threads in the order we first saw them, so the next slot nearly always fits.
    for (size_t i = 0; i < state.threads; i++) {
        const size_t at = (hint + i) % state.threads;
        if (state.slots[at].facts.tid == tid) {
            hint = at + 1;
            return &state.slots[at];
        }
    }
    return nullptr;
}

// An io_uring worker is listed as one of the program's threads, even after the last ring has been
// closed, but runs no program code and takes no signals: a signal sent to it would stay queued, and
// count against the user's limit, until the program ends.
bool is_worker(const char *name, const char *behind)
{
    constexpr unsigned long io_worker = 0x10; // PF_IO_WORKER
    constexpr char prefix[] = "iou-";
    for (size_t i = 0; i + 1 < sizeof(prefix); i++) {
        if (name[i] != prefix[i])
            return false;
    }
    constexpr int blanks_before_flags = 7; // state, parent, group, session, terminal, its group
    for (int word = 0; *behind != 0 && word < blanks_before_flags; behind++)
        word += *behind == ' ' ? 1 : 0;
    unsigned long flags = 0;
    for (; *behind >= '0' && *behind <= '9'; behind++)
        flags = flags * 10 + static_cast<unsigned long>(*behind - '0');
    return (flags & io_worker) != 0;
}

// Whether a listed thread never enters the handler: it is a kernel worker, or it has ended. An
// ended main thread (pthread_exit) is listed until all others have ended, and a traced thread until
// its tracer has seen its end; such a thread accepts a signal but never handles it. Threads of a C
// library have a robust list as long as they run, which is quick to check.
bool never_comes(int tid)
{
    void *head = nullptr;
    size_t size = 0;
    if (!sys::failed(sys::call(SYS_get_robust_list, tid, &head, &size)) && head != nullptr)
        return false;
    static char text[512];
    const long got = read_task(tid, "stat", text, sizeof(text));
    const char *behind = nullptr; // after the name, which may contain anything
    const char *name = nullptr;
    for (long i = 0; i + 1 < got; i++) {
        if (text[i] == '(' && name == nullptr)
            name = text + i + 1;
        if (text[i] == ')')
            behind = text + i + 1;
    }
    if (behind == nullptr || name == nullptr || behind[0] == 0)
        return false;
    return behind[1] == 'Z' || behind[1] == 'X' || is_worker(name, behind);
}

// Signals a thread that was not listed before. −errno, or 0.
long knock(int tid)
{
    if (state.threads == max_threads)
        return -E2BIG;
    Slot &slot = state.slots[state.threads];
    slot.facts.tid = tid;
    slot.knocked = false;
    slot.back.store(0, std::memory_order_relaxed);
    slot.arrived.store(0, std::memory_order_relaxed);
    // The slot must be findable before the thread can look for it.
    std::atomic_signal_fence(std::memory_order_seq_cst);
    __atomic_store_n(&state.threads, state.threads + 1, __ATOMIC_RELEASE);
    const long sent = call_thread(tid);
    if (sent == -ESRCH) {
        slot.arrived.store(2, std::memory_order_relaxed); // gone already
        return 0;
    }
    return sys::failed(sent) ? sent : 0; // the user's signal queue is full
}

// One look at the list of threads, which signals the new ones. Returns the number of threads that
// have not parked yet, or −errno; −EBADF: a thread has closed the list meanwhile.
long look(int self, int *blamed)
{
    const long dir = open_briefly("/proc/self/task");
    if (sys::failed(dir))
        return dir;
    long missing = 0;
    size_t hint = 0;
    const auto use = [&](int tid) -> long {
        if (tid == self || is_lodgers_thread(tid))
            return 0;
        const Slot *slot = slot_of(tid, hint);
        if (slot == nullptr) {
            if (never_comes(tid))
                return 0;
            slot = &state.slots[state.threads];
            if (const long knocked = knock(tid); knocked < 0)
                return knocked;
        }
        if (slot->arrived.load(std::memory_order_acquire) == 0) {
            *blamed = tid;
            missing++;
        }
        return 0;
    };
    const long result = each_number(dir, task_buffer, use, [dir] { return is_kept(dir); });
    give_up(dir);
    return result < 0 ? result : missing;
}

// A thread that was signalled and then exited without reaching the handler: its slot is dropped.
void forget_exited()
{
    const long pid = sys::call(SYS_getpid);
    for (size_t i = 0; i < state.threads; i++) {
        Slot &slot = state.slots[i];
        if (slot.arrived.load(std::memory_order_acquire) == 0 &&
            (sys::call(SYS_tgkill, pid, slot.facts.tid, 0) == -ESRCH ||
             never_comes(slot.facts.tid)))
            slot.arrived.store(2, std::memory_order_relaxed);
    }
}

// Threads that do not come although they were signalled may be glibc's, which need its signal.
void knock_again()
{
    for (size_t i = 0; i < state.threads; i++) {
        Slot &slot = state.slots[i];
        if (slot.arrived.load(std::memory_order_acquire) == 0 && !slot.knocked)
            slot.knocked = knock_at_library_thread(slot.facts.tid);
    }
}

// A new thread sleeps with all signals blocked until its creator, which may have no processor, lets
// it go.
bool some_other_works(int deaf)
{
    for (size_t i = 0; i < state.threads; i++) {
        const Slot &slot = state.slots[i];
        if (slot.arrived.load(std::memory_order_acquire) != 0 || slot.facts.tid == deaf)
            continue;
        const char letter = status_of(slot.facts.tid).state;
        if (letter == 'R' || letter == 'D')
            return true;
    }
    return false;
}

// A thread that need not be waited for until the limit; 0: none is known. One is watched at a time.
int find_deaf(Suspect &suspect)
{
    for (size_t i = 0; i < state.threads; i++) {
        const Slot &slot = state.slots[i];
        const int tid = slot.facts.tid;
        if (slot.arrived.load(std::memory_order_acquire) != 0 || slot.knocked ||
            (suspect.tid != 0 && suspect.tid != tid))
            continue;
        if (is_deaf(suspect, tid) && !some_other_works(tid))
            return tid;
        if (suspect.tid == tid)
            return 0;
    }
    suspect = {}; // it has come, or ended
    return 0;
}

} // namespace

long set_handler(int signal, void (*handler)(int, siginfo_t *, void *), SignalAction *old)
{
    constexpr uint64_t sa_restorer = 0x04000000;
    const uint64_t stack = state.on_alternate_stack ? SA_ONSTACK : 0;
    const SignalAction action = {reinterpret_cast<uint64_t>(handler),
                                 SA_SIGINFO | SA_RESTART | sa_restorer | stack,
                                 reinterpret_cast<uint64_t>(cryo_signal_return), ~0UL};
    return sys::call(SYS_rt_sigaction, signal, &action, old, sizeof(action.mask));
}

void move_handler(bool to_alternate_stack)
{
    if (state.on_alternate_stack == to_alternate_stack)
        return;
    state.on_alternate_stack = to_alternate_stack;
    set_handler(state.signal, on_signal, nullptr);
}

namespace {

// Whether the thread has registered this area, another one, or none. An area can be registered only
// if there is none; the kernel's error says whether it is the same.
enum class Rseq { none, same, other };

Rseq look_at_rseq(uint64_t area, uint64_t size)
{
    constexpr int unregister = 1;
    const long result = sys::call(SYS_rseq, area, size, 0, RSEQ_SIG);
    if (!sys::failed(result))
        sys::call(SYS_rseq, area, size, unregister, RSEQ_SIG);
    return result == -EBUSY                        ? Rseq::same
           : result == -EINVAL || result == -EPERM ? Rseq::other
                                                   : Rseq::none;
}

// Finds the C library's area, unless the program has unregistered it; only a tracer finds out the
// address of an area of the program's own (capture/process/rseq_area.hpp).
void look_at_rseq(ThreadFacts &facts)
{
    alignas(32) char none_of_these[32] = {};
    const sys::RseqArea area = sys::rseq_area(facts.fs_base);
    Rseq found = area.address != 0 ? look_at_rseq(area.address, area.size)
                                   : look_at_rseq(reinterpret_cast<uint64_t>(none_of_these),
                                                  sizeof(none_of_these));
    facts.foreign_rseq = found == Rseq::other ? 1 : 0;
    facts.rseq = found == Rseq::same ? area.address : 0;
    facts.rseq_size = facts.rseq != 0 ? area.size : 0;
    facts.rseq_signature = RSEQ_SIG;
}

// An io_uring ring that is registered with the thread exists without a descriptor, and without
// visible memory. Entering a ring with nothing to do has no effect. A filter that nobody has tried
// out might kill for it, but a program with such a one is refused anyway.
bool has_registered_ring()
{
    constexpr int most = 16;                // the kernel's limit
    constexpr unsigned registered = 1 << 4; // IORING_ENTER_REGISTERED_RING
    if (may_end_by_a_look())
        return false;
    for (int i = 0; i < most; i++) {
        const long entered = sys::call(SYS_io_uring_enter, i, 0, 0, registered, nullptr, 0);
        if (entered == -EINVAL || entered == -ENOSYS || entered == -EPERM)
            return false; // the thread has never used one
        if (entered != -EBADF)
            return true;
    }
    return false;
}

// Thread-keyrings and process-keyrings end with their thread or process. Asking makes none; asking
// about the session's could give the program another one. As above, a filter might kill.
bool has_own_keys()
{
    if (may_end_by_a_look())
        return false;
    for (const int keyring : {KEY_SPEC_THREAD_KEYRING, KEY_SPEC_PROCESS_KEYRING}) {
        const long bytes = sys::call(SYS_keyctl, KEYCTL_READ, keyring, nullptr, 0);
        if (bytes > 0) // the numbers of the keys in it
            return true;
    }
    return false;
}

void look_at_settings(ThreadFacts &facts)
{
    facts.tsc = facts.machine_check = facts.cpuid = 0;
    for (int32_t &one : facts.speculation)
        one = 0;
    if (!may_ask_for_settings())
        return;
    sys::call(SYS_prctl, PR_GET_TSC, &facts.tsc, 0, 0, 0);
    const long choice = sys::call(SYS_prctl, PR_MCE_KILL_GET, 0, 0, 0, 0);
    facts.machine_check = sys::failed(choice) ? 0 : static_cast<int32_t>(choice) + 1;
    const long cpuid = sys::call(SYS_arch_prctl, ARCH_GET_CPUID, 0);
    facts.cpuid = sys::failed(cpuid) ? 0 : static_cast<int32_t>(cpuid) + 1;
    unsigned long which = 0;
    for (int32_t &one : facts.speculation) {
        const long told = sys::call(SYS_prctl, PR_GET_SPECULATION_CTRL, which++, 0, 0, 0);
        one = sys::failed(told) ? 0 : static_cast<int32_t>(told);
    }
}

// A restart may have given the main thread another (ResumeInfo), which no image must have.
int own_death_signal(int tid)
{
    int now = 0;
    sys::call(SYS_prctl, PR_GET_PDEATHSIG, &now, 0, 0, 0);
    const ResumeInfo &info = state.resume;
    const bool given = info.given_death_signal != 0 && now == info.given_death_signal &&
                       tid == sys::call(SYS_getpid);
    return given ? info.own_death_signal : now;
}

} // namespace

void fill_facts(ThreadFacts &facts, int tid, void *frame)
{
    facts.tid = tid;
    facts.frame = reinterpret_cast<uint64_t>(frame);
    sys::call(SYS_arch_prctl, ARCH_GET_FS, &facts.fs_base);
    sys::call(SYS_arch_prctl, ARCH_GET_GS, &facts.gs_base);
    sys::call(SYS_prctl, PR_GET_TID_ADDRESS, &facts.clear_child_tid, 0, 0, 0);
    sys::call(SYS_get_robust_list, 0, &facts.robust_head, &facts.robust_size);
    facts.pdeathsig = own_death_signal(tid);
    facts.timer_slack = static_cast<uint64_t>(sys::call(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0));
    look_at_rseq(facts);
    facts.registered_ring = has_registered_ring() ? 1 : 0;
    facts.own_keys = has_own_keys() ? 1 : 0;
    facts.securebits = static_cast<int>(sys::call(SYS_prctl, PR_GET_SECUREBITS, 0, 0, 0, 0));
    look_at_settings(facts);
    get_policy(facts.policy, 0, 0);
}

void get_policy(Policy &policy, uint64_t address, unsigned flags)
{
    constexpr unsigned long node_count = sizeof(policy.nodes) * 8;
    policy = {};
    const long result =
        sys::call(SYS_get_mempolicy, &policy.mode, policy.nodes, node_count, address, flags);
    if (sys::failed(result))
        policy = {}; // a kernel without policies
}

namespace {

Slot *slot_for(int tid)
{
    const size_t threads = __atomic_load_n(&state.threads, __ATOMIC_ACQUIRE);
    for (size_t i = 0; i < threads; i++) {
        if (state.slots[i].facts.tid == tid)
            return &state.slots[i];
    }
    return nullptr;
}

// In a restored copy: the slot of the thread that had this id when it was saved. Other threads may
// have written their new ids into their slots already, and one of those may be this id.
Slot *slot_of_former(int tid)
{
    for (size_t i = 0; i < state.threads; i++) {
        if (state.slots[i].former_tid == tid)
            return &state.slots[i];
    }
    return nullptr;
}

} // namespace

void pass_over(int tid)
{
    Slot *slot = slot_for(tid);
    if (slot == nullptr)
        return;
    slot->arrived.store(2, std::memory_order_release);
    state.arrivals.fetch_add(1, std::memory_order_release);
    futex_wake(state.arrivals);
}

bool park(int tid, void *frame, uint32_t generation)
{
    Slot *slot = slot_for(tid);
    if (slot == nullptr)
        return false; // no slot: a stray signal
    fill_facts(slot->facts, tid, frame);
    if (cryo_context_save(&slot->facts.context) == 0) {
        // Only a filled slot may be seen as arrived.
        slot->arrived.store(1, std::memory_order_release);
        state.arrivals.fetch_add(1, std::memory_order_release);
        futex_wake(state.arrivals);
    } else {
        renew_client();
        // Restored, perhaps with another id: this thread no longer needs the restorer's memory. Its
        // slot may have moved since it parked (stop_threads).
        slot = slot_of_former(tid);
        if (slot != nullptr)
            slot->facts.tid = static_cast<int>(sys::call(SYS_gettid));
        __atomic_fetch_add(&state.resume.left, 1, __ATOMIC_RELEASE);
        sys::call(SYS_futex, &state.resume.left, FUTEX_WAKE_PRIVATE, 0x7fffffff, 0, 0, 0);
    }
    while (state.generation.load(std::memory_order_acquire) == generation)
        futex_wait(state.generation, generation, 0);
    return true;
}

long stop_threads(int self, int *blamed)
{
    __atomic_store_n(&state.threads, 0, __ATOMIC_RELEASE);
    park_waiting_clients();
    const long start = sys::monotonic_ns();
    Suspect suspect;
    long settled = 0;
    for (;;) {
        const uint32_t seen = state.arrivals.load(std::memory_order_acquire);
        const size_t before = state.threads;
        const long missing = look(self, blamed);
        if (missing == -EBADF && sys::monotonic_ns() - start < arrival_limit_ns) {
            settled = 0;
            continue;
        }
        if (missing < 0)
            return missing;
        // A thread that parks may have created another just before: only a list that stays the
        // same after all have parked is complete.
        if (missing == 0 && state.threads == before && settled++ > 0)
            break;
        if (missing != 0) {
            settled = 0;
            const long waited = sys::monotonic_ns() - start;
            if (waited > arrival_limit_ns)
                return -ETIMEDOUT;
            futex_wait(state.arrivals, seen, 2'000'000);
            forget_exited();
            knock_again();
            if (const int deaf = waited > usual_arrival_ns ? find_deaf(suspect) : 0; deaf != 0) {
                *blamed = deaf;
                return -ETIMEDOUT;
            }
        }
    }
    size_t kept = 0;
    for (size_t i = 0; i < state.threads; i++) {
        if (state.slots[i].arrived.load(std::memory_order_acquire) != 1)
            continue;
        Slot &slot = state.slots[kept++];
        if (&slot != &state.slots[i]) {
            slot.facts = state.slots[i].facts;
            slot.back.store(0, std::memory_order_relaxed);
            slot.arrived.store(1, std::memory_order_relaxed);
        }
        slot.former_tid = slot.facts.tid;
    }
    __atomic_store_n(&state.threads, kept, __ATOMIC_RELEASE);
    return 0;
}

// The caller clears `active` first: a thread that reads the new generation and then `active` does
// not park any more, and one that read the old generation finds it changed.
void release_threads()
{
    stop_knocking();
    state.generation.fetch_add(1, std::memory_order_release);
    futex_wake(state.generation);
}

} // namespace cryo::agent
