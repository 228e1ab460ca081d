// SPDX-License-Identifier: Apache-2.0
#include "capture/process/aio.hpp"

#include "capture/session/enterable.hpp"
#include "look/members.hpp"
#include "sys/aio_ring.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <fmt/format.h>
#include <linux/kcmp.h>
#include <map>
#include <mutex>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

namespace cryo::capture {

namespace {

using std::chrono::milliseconds;

// A program that stands still submits nothing, so requests to a disk end soon.
constexpr milliseconds patience(100);
constexpr milliseconds longest_pause(8);

// Keeps the thread on its processor, since the kernel keeps a part of a context's room for each.
class Pinned
{
  public:
    Pinned()
    {
        cpu_set_t one;
        CPU_ZERO(&one);
        const int here = sched_getcpu();
        if (here < 0 || here >= CPU_SETSIZE || sched_getaffinity(0, sizeof(before_), &before_) != 0)
            return;
        CPU_SET(here, &one);
        is_pinned_ = sched_setaffinity(0, sizeof(one), &one) == 0;
    }
    ~Pinned()
    {
        if (is_pinned_)
            sched_setaffinity(0, sizeof(before_), &before_);
    }
    Pinned(const Pinned &) = delete;
    Pinned &operator=(const Pinned &) = delete;
    explicit operator bool() const { return is_pinned_; }

  private:
    cpu_set_t before_;
    bool is_pinned_ = false;
};

// Requests that end at once, until there is no room for the event of another one.
Result<uint64_t> fill(aio_context_t context, uint64_t slots)
{
    const Fd file(memfd_create("cryo", MFD_CLOEXEC));
    if (!file)
        return Error::from_errno("memfd_create", errno);
    iocb request = {};
    request.aio_lio_opcode = IOCB_CMD_PREAD;
    request.aio_fildes = static_cast<uint32_t>(file.get());
    request.aio_buf = reinterpret_cast<uint64_t>(&request);
    std::vector<iocb *> requests(slots, &request);
    const Pinned pinned;
    if (!pinned)
        return Error(ENOTSUP, "no thread can be kept on its processor");
    uint64_t taken = 0;
    for (;;) {
        const long now = syscall(SYS_io_submit, context, requests.size(), requests.data());
        if (now < 0 && errno == EAGAIN && taken > 0)
            return taken;
        if (now <= 0)
            return Error::from_errno("io_submit", now < 0 ? errno : EIO);
        taken += static_cast<uint64_t>(now);
    }
}

// How many requests a context with such a ring takes while none is under way: tried with a context
// of our own. It stays, because io_destroy(2) waits for all processors (RCU), tens of milliseconds.
Result<uint64_t> taken_by_idle(uint64_t bytes)
{
    static std::mutex mutex;
    static std::map<uint64_t, uint64_t> known;
    const std::lock_guard<std::mutex> lock(mutex);
    if (const auto found = known.find(bytes); found != known.end())
        return found->second;
    aio_context_t context = 0;
    if (syscall(SYS_io_setup, sys::aio_requests(bytes), &context) != 0)
        return errno == EAGAIN
                   ? Error(EAGAIN, "comparing it with another one: fs.aio-max-nr is reached")
                   : Error::from_errno("io_setup", errno);
    const uint64_t slots = reinterpret_cast<const sys::AioRing *>(context)->slots;
    if (slots != sys::aio_slots(bytes))
        return Error(ENOTSUP, "the kernel makes rings of another size");
    Result<uint64_t> taken = fill(context, slots);
    if (taken)
        known[bytes] = *taken;
    return taken;
}

using Time = std::chrono::steady_clock::time_point;

// Asks until no request is under way.
Result<AgentFacts::Aio> ask(AgentSession &session, const Mapping &ring, uint64_t idle, Time until)
{
    for (milliseconds pause(1);; pause = std::min(2 * pause, longest_pause)) {
        Result<AgentFacts::Aio> found =
            session.facts().aio(RemoteAddress(ring.start), ring.end - ring.start, idle);
        if (!found || found->error != EBUSY || std::chrono::steady_clock::now() > until)
            return found;
        std::this_thread::sleep_for(pause);
    }
}

// 0: the other thread shares the memory of this process; −1: it does not; else the errno for which
// the kernel does not say. A process's id is its main thread's.
int thread_lives_with(pid_t pid, pid_t other)
{
    const long order = syscall(SYS_kcmp, pid, other, KCMP_VM, 0, 0);
    return order < 0 ? errno : order == 0 ? 0 : -1;
}

// As thread_lives_with(), but for a whole process: any of its threads that still live.
int lives_with(pid_t pid, pid_t other)
{
    const int found = thread_lives_with(pid, other);
    if (found >= 0)
        return found;
    const Proc process(other);
    const Result<std::string> memory = process.read("statm");
    if (memory && !memory->starts_with("0 "))
        return -1;
    // A main thread that has ended has no memory any more, but other threads have.
    const Result<std::vector<int>> threads = process.numbers("task");
    if (!threads)
        return threads.error().code() == ENOENT ? ESRCH : threads.error().code();
    int all = -1;
    for (const int thread : *threads) {
        const int one = thread_lives_with(pid, thread);
        if (one == 0)
            return 0;
        if (one > 0 && one != ESRCH)
            all = one;
    }
    return all;
}

// A process that lives in the memory of this one, and so may use its contexts while they are
// filled and turned: 0 if there is none. A child that cannot be asked about counts. Any other
// process may be one, too: a child of a child that has ended, or a sibling (CLONE_PARENT). Of
// these, processes that the caller may not ask about do not count, if it may ask at all (in some
// containers nobody may): they belong to other users, and only root's can share memory with those
// of others. Numbers are listed in ascending order, and a new process has a higher one than its
// maker, unless the numbers begin anew just then.
Result<pid_t> find_user(pid_t pid)
{
    if (const int why = lives_with(pid, pid); why > 0)
        return Error::from_errno("which processes share memory: kcmp(2)", why);
    const Result<std::set<pid_t>> children = children_of(pid);
    if (!children)
        return children.error();
    for (const pid_t child : *children) {
        const int found = lives_with(pid, child);
        if (found >= 0 && found != ESRCH)
            return child;
    }
    const Result<std::vector<int>> all = Proc(pid).numbers("..");
    if (!all)
        return all.error();
    for (const pid_t other : *all) {
        const int found = other != pid ? lives_with(pid, other) : -1;
        if (found == 0)
            return other;
        if (found > 0 && found != ESRCH && found != EPERM)
            return Error::from_errno("which processes share memory: kcmp(2)", found);
    }
    return 0;
}

void refuse(Description &d, const Mapping &ring, int error)
{
    const std::string what =
        fmt::format("memory at {:x}: a context of asynchronous I/O (io_setup)", ring.start);
    switch (error) {
    case EBUSY:
        d.problems.add(what + " with requests under way (io_submit)", "they must end first",
                       Passing::soon);
        break;
    case E2BIG:
        d.problems.add(fmt::format("{} with more than {} events that wait", what, agent::aio_most),
                       "the program must fetch them first (io_getevents)", Passing::soon);
        break;
    case ESRCH:
        d.problems.add(what + " of another process, inherited by fork", "unmap it first");
        break;
    case EPROTO:
        d.problems.add(what + ", whose ring is not understood",
                       "the program must destroy it first (io_destroy)");
        break;
    default:
        d.problems.add(what + ": " + Error::from_errno("asking about it", error).text(),
                       "the program must destroy it first (io_destroy)");
    }
}

} // namespace

Result<void> look_at_aio(Description &d, AgentSession &session)
{
    if (d.space.aio_rings.empty())
        return {};
    const Result<pid_t> user = find_user(d.proc.pid());
    if (!user)
        return user.error();
    const Time until = std::chrono::steady_clock::now() + patience; // for all of them
    for (const Mapping &ring : d.space.aio_rings) {
        if (*user != 0) {
            d.problems.add(fmt::format("memory at {:x}: a context of asynchronous I/O (io_setup), "
                                       "which process {} can use (clone with CLONE_VM, vfork)",
                                       ring.start, *user),
                           "that process must end, or call exec, first", Passing::when_gone);
            continue;
        }
        if (const auto obstacle = filter_obstacle(d.proc, d.status);
            obstacle && std::ranges::all_of(d.thread_filters, [](const auto &thread) {
                return thread.filters.empty();
            }))
            continue; // the process is refused for that
        const bool is_whole = ring.shared && ring.prot == (PROT_READ | PROT_WRITE) &&
                              ring.offset == 0 && ring.end - ring.start >= image::kPageSize;
        if (!is_whole) {
            refuse(d, ring, EPROTO);
            continue;
        }
        const Result<uint64_t> idle = taken_by_idle(ring.end - ring.start);
        if (!idle) {
            d.problems.add(fmt::format("memory at {:x}: a context of asynchronous I/O "
                                       "(io_setup): {}",
                                       ring.start, idle.error().text()),
                           "the program must destroy it first (io_destroy)");
            continue;
        }
        Result<AgentFacts::Aio> found = ask(session, ring, *idle, until);
        if (!found)
            return found.error();
        if (found->error != 0) {
            refuse(d, ring, found->error);
            continue;
        }
        image::AioContext context;
        context.start = ring.start;
        context.end = ring.end;
        context.flags = ring.flags;
        context.head = found->head;
        context.tail = found->tail;
        context.events = d.strings.keep_list(found->events);
        d.aio_contexts.push_back(context);
    }
    return {};
}

} // namespace cryo::capture
