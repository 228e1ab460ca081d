// SPDX-License-Identifier: Apache-2.0
#include "libcr/request.hpp"

#include "base/clock.hpp"
#include "cli/requester.hpp"
#include "libcr/edge.hpp"
#include "libcr/spawn.hpp"
#include "sys/own_variable.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace cryo::libcr {

namespace {

constexpr int log_floor = 900; // above the numbers that programs use

struct Request {
    int handle, log, file;
    ino_t pipe; // if the handle's inode differs, this is the restored copy
    pid_t command;
    bool restart;
    Request *next;
};

Request *requests;
pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

// The child of a fork has inherited the lock, perhaps held by a thread that it does not have. The
// list is whole at any moment.
void renew_lock()
{
    lock = PTHREAD_MUTEX_INITIALIZER;
}

[[gnu::constructor]] void prepare_for_forks()
{
    pthread_atfork(nullptr, nullptr, renew_lock);
}

ino_t inode_of(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 ? status.st_ino : 0;
}

Request *find(unsigned long handle)
{
    pthread_mutex_lock(&lock);
    Request *found = requests;
    while (found != nullptr && static_cast<unsigned long>(found->handle) != handle)
        found = found->next;
    pthread_mutex_unlock(&lock);
    return found;
}

void unlink_request(const Request *request)
{
    pthread_mutex_lock(&lock);
    Request **link = &requests;
    while (*link != request)
        link = &(*link)->next;
    *link = request->next;
    pthread_mutex_unlock(&lock);
}

bool is_restored(const Request &request)
{
    return inode_of(request.handle) != request.pipe;
}

void close_request(Request *request)
{
    const bool restored = is_restored(*request);
    unlink_request(request);
    agent().disown_fd(request->handle);
    close(request->handle);
    if (!restored) {
        agent().disown_fd(request->log);
        close(request->log);
        if (request->file >= 0)
            agent().disown_fd(request->file);
    }
    free(request);
}

struct Pipe {
    int read, write;
};

// False if a preloaded agent is of an older release.
bool agent_knows_requests()
{
    return agent().size >= offsetof(agent::Interface, leave_request) + sizeof(void *);
}

// Keeps checkpoints out during the scope, if the thread is a client and not in a callback; not
// where it would have to wait for one whose callbacks may need the caller.
class Undivided
{
  public:
    Undivided()
    {
        if (agent().may_request() == 0) {
            id_ = agent().init();
            entered_ = (knows_ ? agent().enter_request(id_) : agent().enter_cs(id_, false)) == 0;
        }
    }
    ~Undivided()
    {
        if (entered_)
            knows_ ? agent().leave_request(id_) : agent().leave_cs(id_);
    }
    Undivided(const Undivided &) = delete;
    Undivided &operator=(const Undivided &) = delete;

  private:
    const bool knows_ = agent_knows_requests();
    int id_ = 0;
    bool entered_ = false;
};

int make_channels(Pipe &report, int &log)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0)
        return -errno;
    report = {ends[0], ends[1]};
    log = memfd_create("cr log", MFD_CLOEXEC);
    const int high = log < 0 ? -1 : fcntl(log, F_DUPFD_CLOEXEC, log_floor);
    if (high >= 0) {
        close(log);
        log = high;
    }
    if (log >= 0)
        return 0;
    const int error = errno;
    close(report.read);
    close(report.write);
    return -error;
}

int begin(const Start &start, Pipe report, Request &request)
{
    if (start.known_error != 0) {
        const cli::RequestReport known = {start.known_error, 0};
        return write(report.write, &known, sizeof(known)) == sizeof(known) ? 0 : -errno;
    }
    const Spawn what = {start.command, start.arguments, report.write,
                        request.log,   start.file,      start.restart};
    const pid_t command = spawn(what);
    request.command = command;
    return command < 0 ? command : 0;
}

// Subtracts the time spent from the timeval, as select(2) would.
void take_off(timeval *timeout, uint64_t since)
{
    const long long spent = static_cast<long long>((now_ns() - since) / 1000);
    long long left = timeout->tv_sec * 1'000'000LL + timeout->tv_usec - spent;
    left = left < 0 ? 0 : left;
    timeout->tv_sec = left / 1'000'000;
    timeout->tv_usec = left % 1'000'000;
}

// Reaps the command and, if the restart failed late, the process it left: both are our children.
void reap_children(const Request &request, const cli::RequestReport &report)
{
    while (request.command > 0 && waitpid(request.command, nullptr, 0) < 0 && errno == EINTR)
        ;
    if (request.restart && report.error != 0 && report.value > 0) {
        while (waitpid(report.value, nullptr, 0) < 0 && errno == EINTR)
            ;
    }
}

} // namespace

bool name_of(int fd, char (&name)[PATH_MAX])
{
    char link[64];
    struct stat there;
    struct stat named;
    snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
    const ssize_t n = readlink(link, name, sizeof(name) - 1);
    if (n <= 0 || fstat(fd, &there) != 0 || !S_ISREG(there.st_mode))
        return false;
    name[n] = 0;
    return stat(name, &named) == 0 && named.st_ino == there.st_ino && named.st_dev == there.st_dev;
}

int start_request(const Start &start, unsigned long *handle)
{
    if (sys::has_gained_rights())
        return -CR_ENOSUPPORT; // with its rights the command would obey the caller
    const Undivided here;
    auto *request = static_cast<Request *>(calloc(1, sizeof(Request)));
    if (request == nullptr)
        return -ENOMEM;
    Pipe report = {-1, -1};
    if (const int made = make_channels(report, request->log); made < 0) {
        free(request);
        return made;
    }
    request->handle = report.read;
    request->pipe = inode_of(report.read);
    request->restart = start.restart;
    request->file = start.restart ? -1 : start.file;
    // Before the command runs, since it may save this very process.
    pthread_mutex_lock(&lock);
    request->next = requests;
    requests = request;
    pthread_mutex_unlock(&lock);
    int result = agent().own_fd(request->handle, agent::OwnFdKind::handle);
    if (result == 0)
        result = agent().own_fd(request->log, agent::OwnFdKind::other);
    if (result == 0 && request->file >= 0)
        result = agent().own_fd(request->file, agent::OwnFdKind::destination);
    *handle = static_cast<unsigned long>(request->handle);
    // A restored copy of this very moment has nothing to ask for: its handle is ready.
    if (result == 0 && !is_restored(*request)) {
        agent().own_fd(report.write, agent::OwnFdKind::other);
        result = begin(start, report, *request);
        agent().disown_fd(report.write);
    }
    close(report.write);
    if (is_restored(*request))
        return 0;
    if (result < 0)
        close_request(request);
    return result;
}

int wait_request(unsigned long handle, timeval *timeout)
{
    const Request *request = find(handle);
    if (request == nullptr)
        return -EINVAL;
    if (timeout != nullptr && (timeout->tv_sec < 0 || timeout->tv_usec < 0))
        return -EINVAL;
    const uint64_t since = now_ns();
    timespec limit = {};
    if (timeout != nullptr)
        limit = {timeout->tv_sec, timeout->tv_usec * 1000};
    pollfd look = {request->handle, POLLIN, 0};
    const int ready = ppoll(&look, 1, timeout != nullptr ? &limit : nullptr, nullptr);
    const int error = errno;
    if (timeout != nullptr)
        take_off(timeout, since);
    return ready < 0 ? -error : ready;
}

int log_request(unsigned long handle, unsigned size, char *text)
{
    const Request *request = find(handle);
    if (request == nullptr)
        return -EINVAL;
    struct stat status;
    if (is_restored(*request) || fstat(request->log, &status) != 0 || status.st_size == 0)
        return 0;
    if (size > 0) {
        const size_t room = size - 1;
        const size_t all = static_cast<size_t>(status.st_size);
        const ssize_t n = pread(request->log, text, all < room ? all : room, 0);
        if (n < 0)
            return -errno;
        text[n] = 0;
    }
    return static_cast<int>(status.st_size) + 1;
}

int reap_request(unsigned long handle)
{
    Request *request = find(handle);
    if (request == nullptr)
        return -EINVAL;
    if (is_restored(*request)) {
        close_request(request);
        return -CR_ERESTARTED;
    }
    // Reported for a command that died without a report.
    cli::RequestReport report = {EIO, 0};
    const ssize_t n = read(request->handle, &report, sizeof(report));
    if (n < 0)
        return -errno;
    reap_children(*request, report);
    close_request(request);
    if (report.error != 0)
        return -report.error;
    return report.value > 0 ? report.value : 1;
}

int poll_request(unsigned long handle, timeval *timeout, char **text, int *error)
{
    const int waited = wait_request(handle, timeout);
    if (waited <= 0) {
        *error = -waited;
        return waited == 0 ? 0 : CR_POLL_CHKPT_ERR_PRE;
    }
    if (text != nullptr) {
        const int size = log_request(handle, 0, nullptr);
        *text = static_cast<char *>(calloc(1, size > 0 ? static_cast<size_t>(size) : 1));
        const int got = *text == nullptr || size < 0
                            ? -ENOMEM
                            : log_request(handle, static_cast<unsigned>(size), *text);
        if (got < 0) {
            free(*text);
            *text = nullptr;
            *error = -got;
            return CR_POLL_CHKPT_ERR_LOG;
        }
    }
    const int reaped = reap_request(handle);
    if (reaped < 0) {
        *error = -reaped;
        return CR_POLL_CHKPT_ERR_POST;
    }
    return reaped;
}

} // namespace cryo::libcr
