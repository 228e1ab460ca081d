// SPDX-License-Identifier: Apache-2.0
// Descriptors that launchers leave open in the ranks they start: their own pipes and sockets, which
// no rank needs and no image can hold. They are closed before the program begins.
//
// The rank's own connection to Hydra, PMI_FD, becomes the library's in MPI_Init. A child that the
// program has made by fork() before that has a copy, which no image can hold either, and of which
// nothing comes: it answers to the rank alone.
#include "agent/interface.hpp"

#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <pthread.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::mpi {

namespace {

bool is_started_by_hydra()
{
    char path[64];
    char name[32] = "";
    snprintf(path, sizeof(path), "/proc/%d/comm", getppid());
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t bytes = read(fd, name, sizeof(name) - 1);
    close(fd);
    constexpr char hydra[] = "hydra_pmi_proxy";
    return bytes > 0 && strncmp(name, hydra, sizeof(hydra) - 1) == 0;
}

bool is_pipe_or_socket(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

// A listening socket, such as slurmstepd's PMIx plugin leaves open. Those that a program is meant
// to get are announced by LISTEN_FDS.
bool is_listener(int fd)
{
    int listens = 0;
    socklen_t size = sizeof(listens);
    return getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) == 0 && listens != 0;
}

int connection = -1; // PMI_FD, as the program was given it
struct stat is_connection;

// The number may have become another file's since.
void leave_out_in_child()
{
    struct stat status;
    const agent::Interface *agent =
        &agent::cryo_agent_interface != nullptr ? agent::cryo_agent_interface : nullptr;
    if (agent != nullptr && fstat(connection, &status) == 0 &&
        status.st_ino == is_connection.st_ino && status.st_dev == is_connection.st_dev)
        agent->own_fd(connection, agent::OwnFdKind::other);
}

void know_connection()
{
    const char *number = getenv("PMI_FD");
    connection = number != nullptr ? atoi(number) : -1;
    if (connection > STDERR_FILENO && fstat(connection, &is_connection) == 0 &&
        S_ISSOCK(is_connection.st_mode))
        pthread_atfork(nullptr, nullptr, leave_out_in_child);
}

void close_each(bool (*is_left_open)(int))
{
    const char *needed = getenv("PMI_FD"); // the rank's own connection to the launcher
    constexpr int most = 256;              // descriptors left open are below this
    for (int fd = STDERR_FILENO + 1; fd < most; fd++) {
        if ((needed == nullptr || fd != atoi(needed)) && is_left_open(fd))
            close(fd);
    }
}

[[gnu::constructor]] void close_what_is_left_open()
{
    know_connection();
    if (is_started_by_hydra())
        close_each(is_pipe_or_socket);
    else if (getenv("SLURM_STEP_ID") != nullptr && getenv("LISTEN_FDS") == nullptr)
        close_each(is_listener);
}

} // namespace

} // namespace cryo::mpi
