// SPDX-License-Identifier: Apache-2.0
//
// Programs that save themselves. Between two points the library holds no descriptor and no thread
// for this, so that a fork, an exec or a checkpoint by another backend meets nothing special but a
// page of memory.

#include "libcr/self.h"
#include "libcr.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { FOR_EVER = -1, PATIENCE_MS = 10000 };

static struct {
    cr_self_function_t save;
    void *arg;
} own;
static atomic_bool registered;
static atomic_flag busy = ATOMIC_FLAG_INIT; // its holder may use `own` and `begun`
static atomic_llong looked_at;              // the time of the last look; nanoseconds

// Where the command is looked for; the holder of `busy` may use it. The digits of `memory`'s name.
static struct {
    char digits[CRYO_SELF_DIGITS + 1];
    void *memory;
    long long chosen; // as looked_at; 0: the first point at which nobody is met moves on
} place;

// After a restart: the numbers that the command passed in CRYO_SELF.
static struct {
    int pid, data, command;
} begun = {0, -1, -1};

static int positive(int result)
{
    return result < 0 ? -result : result;
}

static bool await(int fd, int milliseconds)
{
    struct pollfd look = {.fd = fd, .events = POLLIN};
    int n;
    do {
        n = poll(&look, 1, milliseconds);
    } while (n < 0 && errno == EINTR);
    return n > 0;
}

static bool tell(int to, uint32_t what, int result)
{
    const struct cryo_self_message message = {CRYO_SELF_MAGIC, what, result, 0};
    ssize_t n;
    do {
        n = send(to, &message, sizeof(message), MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    return n == (ssize_t)sizeof(message);
}

// Receives a message, and the descriptor that comes with it or -1. False at the end of the
// connection, after a timeout, or for an invalid message.
static bool receive(int from, int milliseconds, struct cryo_self_message *message, int *fd)
{
    union {
        struct cmsghdr head;
        char space[CMSG_SPACE(sizeof(int))];
    } control;
    struct iovec part = {message, sizeof(*message)};
    struct msghdr whole = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = sizeof(control)};
    *fd = -1;
    if (!await(from, milliseconds))
        return false;
    ssize_t n;
    do {
        n = recvmsg(from, &whole, MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    const struct cmsghdr *head = n > 0 ? CMSG_FIRSTHDR(&whole) : NULL;
    if (head != NULL && head->cmsg_level == SOL_SOCKET && head->cmsg_type == SCM_RIGHTS)
        memcpy(fd, CMSG_DATA(head), sizeof(*fd));
    return n == (ssize_t)sizeof(*message) && message->magic == CRYO_SELF_MAGIC;
}

static bool await_go(int command)
{
    struct cryo_self_message message;
    int none;
    return receive(command, FOR_EVER, &message, &none) && message.what == CRYO_SELF_GO;
}

// Allowed are root, and this process's user if all of the process's user ids are the same.
static bool may_ask(int connection)
{
    struct ucred peer = {0};
    socklen_t size = sizeof(peer);
    uid_t real, effective, saved;
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0 ||
        getresuid(&real, &effective, &saved) != 0)
        return false;
    return peer.uid == 0 || (peer.uid == real && peer.uid == effective && peer.uid == saved);
}

static bool draw_digits(char digits[CRYO_SELF_DIGITS + 1])
{
    unsigned char random[CRYO_SELF_DIGITS / 2];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    for (size_t i = 0; i < sizeof(random); i++)
        snprintf(digits + 2 * i, 3, "%02x", random[i]);
    return true;
}

static int make_memory(const char *name, size_t size)
{
    enum { NOEXEC_SEAL = 8 }; // demanded by some systems; kernels before 6.3 do not know it
    // The kernel would end the program.
    struct rlimit most;
    if (getrlimit(RLIMIT_FSIZE, &most) == 0 && most.rlim_cur < size) {
        errno = EFBIG;
        return -1;
    }
    int fd = memfd_create(name, MFD_CLOEXEC | NOEXEC_SEAL);
    if (fd < 0 && errno == EINVAL)
        fd = memfd_create(name, MFD_CLOEXEC);
    if (fd >= 0 && ftruncate(fd, (off_t)size) != 0) {
        const int failure = errno;
        close(fd);
        errno = failure;
        return -1;
    }
    return fd;
}

// Takes another place. On failure the present one stays. The new page takes the place of the old
// one in one step, so that whenever another thread forks, the child has one page, and knows where.
static bool choose_place(long long now)
{
    char name[sizeof(CRYO_SELF_MEMORY) + CRYO_SELF_DIGITS] = CRYO_SELF_MEMORY;
    char *digits = name + sizeof(CRYO_SELF_MEMORY) - 1;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const int fd = draw_digits(digits) ? make_memory(name, page) : -1;
    if (fd < 0)
        return false;
    const int at = place.memory != NULL ? MAP_FIXED : 0;
    void *memory = mmap(place.memory, page, PROT_READ, MAP_PRIVATE | at, fd, 0);
    const int failure = errno;
    close(fd);
    errno = failure;
    if (memory == MAP_FAILED)
        return false;
    place.memory = memory;
    memcpy(place.digits, digits, sizeof(place.digits));
    place.chosen = now;
    return true;
}

static socklen_t address_of_place(struct sockaddr_un *address)
{
    char space[64];
    const ssize_t n = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);
    space[n > 0 ? n : 0] = 0;
    *address = (struct sockaddr_un){.sun_family = AF_UNIX};
    const int length = snprintf(address->sun_path + 1, sizeof(address->sun_path) - 1,
                                CRYO_SELF_ADDRESS, space, (int)getpid(), place.digits);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1) + (socklen_t)length;
}

static int new_socket(void)
{
    return socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
}

// Connects to the command that wants to save this process; -1: there is none.
static int requester(void)
{
    struct sockaddr_un address;
    const socklen_t size = address_of_place(&address);
    const int fd = new_socket();
    if (fd < 0)
        return -1;
    if (connect(fd, (const struct sockaddr *)&address, size) == 0 && may_ask(fd))
        return fd;
    close(fd);
    return -1;
}

// True if some socket has the address at which nobody was met.
static bool is_taken(void)
{
    struct sockaddr_un address;
    const socklen_t size = address_of_place(&address);
    const int fd = new_socket();
    if (fd < 0)
        return false;
    const bool taken =
        bind(fd, (const struct sockaddr *)&address, size) != 0 && errno == EADDRINUSE;
    close(fd);
    return taken;
}

static long long now(void)
{
    struct timespec clock;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &clock);
    return clock.tv_sec * 1000000000LL + clock.tv_nsec;
}

// After a restart the clock may have gone back.
static bool is_over(long long since, long long period)
{
    const long long present = now();
    return since == 0 || present < since || present - since >= period;
}

// A look costs some microseconds, and points may be nanoseconds apart.
static bool is_time_to_look(void)
{
    static const long long period = 10000000;
    if (!is_over(atomic_load_explicit(&looked_at, memory_order_relaxed), period))
        return false;
    atomic_store_explicit(&looked_at, now(), memory_order_relaxed);
    return true;
}

// Where nobody was met, another user may be in the way, at an address that a command has shown. The
// next look is somewhere else; if the way was blocked, at once, as the next point may be far away:
// the command sees the new place within a fifth of a second. Returns the command, or -1.
static int move_on(void)
{
    static const long long period = 1000000000;
    enum { LOOKS = 30, APART_MS = 10 };
    if (!is_over(place.chosen, period))
        return -1;
    const bool blocked = is_taken();
    if (!choose_place(now()) || !blocked) // after a failure the place stays, which mostly does
        return -1;
    for (int i = 0; i < LOOKS; i++) {
        const int command = requester();
        if (command >= 0)
            return command;
        poll(NULL, 0, APART_MS);
    }
    return -1;
}

// 1: saved, 0: the command no longer wants it, or -errno.
static int serve(int command)
{
    struct cryo_self_message message;
    int file;
    if (!receive(command, PATIENCE_MS, &message, &file) || message.what != CRYO_SELF_SAVE ||
        file < 0) {
        if (file >= 0)
            close(file);
        return 0;
    }
    const int result = positive(own.save(file, own.arg));
    close(file);
    if (tell(command, CRYO_SELF_SAVED, result) && result == 0 && message.waits != 0)
        await_go(command);
    return result == 0 ? 1 : -result;
}

// A thread that is cancelled would keep `busy` for ever.
static int forbid_cancellation(void)
{
    int before = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    return before;
}

int cr_self_point(void)
{
    if (!atomic_load_explicit(&registered, memory_order_acquire) || !is_time_to_look() ||
        atomic_flag_test_and_set_explicit(&busy, memory_order_acquire))
        return 0;
    const int before = errno;
    const int cancellable = forbid_cancellation();
    int result = 0;
    if (own.save != NULL) {
        int command = requester();
        if (command < 0)
            command = move_on();
        if (command >= 0) {
            result = serve(command);
            close(command);
        }
    }
    atomic_flag_clear_explicit(&busy, memory_order_release);
    pthread_setcancelstate(cancellable, NULL);
    errno = result < 0 ? -result : before;
    return result < 0 ? -1 : result;
}

// The restore is complete once cr_restart confirms it: a program whose command has given up would
// be in the way of the next restart, and is killed.
static int come_back(cr_self_function_t restore, void *arg)
{
    const int data = begun.data;
    const int command = begun.command;
    begun.data = begun.command = -1;
    const int result = positive(restore(data, arg));
    close(data);
    const bool told = tell(command, CRYO_SELF_BACK, result) && await_go(command);
    close(command);
    if (!told)
        raise(SIGKILL);
    return result == 0 ? 1 : -result;
}

int cr_self_register(cr_self_function_t save, cr_self_function_t restore, void *arg)
{
    // The requester may have fewer rights than the program.
    if (save != NULL && getauxval(AT_SECURE) != 0) {
        errno = CR_ENOSUPPORT;
        return -1;
    }
    if (save != NULL && restore == NULL) {
        errno = EINVAL;
        return -1;
    }
    if (atomic_flag_test_and_set_explicit(&busy, memory_order_acquire)) {
        errno = EBUSY;
        return -1;
    }
    const int cancellable = forbid_cancellation();
    int result = 0;
    if (save != NULL && place.memory == NULL && !choose_place(0)) {
        result = -errno;
    } else {
        own.save = save;
        own.arg = arg;
        if (save != NULL && begun.data >= 0 && begun.pid == getpid())
            result = come_back(restore, arg);
        atomic_store_explicit(&registered, save != NULL && result >= 0, memory_order_release);
    }
    atomic_flag_clear_explicit(&busy, memory_order_release);
    pthread_setcancelstate(cancellable, NULL);
    if (result < 0) {
        errno = -result;
        return -1;
    }
    return result;
}

// The child of a fork does not have the thread that may have held `busy`, and takes another place.
static void begin_child(void)
{
    place.chosen = 0;
    atomic_store(&looked_at, 0);
    atomic_flag_clear(&busy);
}

// Runs before the program sees its environment, or passes it on to other programs.
__attribute__((constructor)) static void begin(void)
{
    pthread_atfork(NULL, NULL, begin_child);
    const char *text = secure_getenv(CRYO_SELF_VARIABLE); // ignored after a gain of rights
    int pid, data, command;
    if (text == NULL || sscanf(text, "%d:%d:%d", &pid, &data, &command) != 3 || pid != getpid())
        return;
    unsetenv(CRYO_SELF_VARIABLE);
    begun.pid = pid;
    begun.data = data;
    begun.command = command;
    fcntl(data, F_SETFD, FD_CLOEXEC);
    fcntl(command, F_SETFD, FD_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, 0); // from here on the end of the connection tells it
}
