// SPDX-License-Identifier: Apache-2.0
// A rank of a job without MPI: it has the rank's side of the coordinator and the bookmark exchange
// over a library in which nothing is ever in flight. Collectives are clocks without a barrier:
// ranks run at their own speed, and a cut must bring all of them to the same step.
//
//     fake_rank STEPS DIRECTORY    prints "rank R: STEPS steps, sum" and, after a restart, where
//                                  it was; touches DIRECTORY/started.R
//
// With FAKE_ENDS=by_itself, or =given_up, SIGUSR1 ends it with status 14, as MPI_Abort does, or an
// error that nobody handles; it says so before.
//
// With FAKE_WITNESS=DIRECTORY it notes there again and again which of its incarnations acts, and
// touches DIRECTORY/doubled if it finds that a younger one has begun.
#include "coord/place.hpp"
#include "coord/rank_end.hpp"
#include "coord/rank_side.hpp"

#include "../../unit/coord/still_mpi.hpp"

#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>
#include <vector>

namespace {

using namespace cryo;

coord::RankSide link_side;
StillMpi mpi;
bookmark::Rank *rank_part;
volatile bool busy = true;
volatile bool missed;
uint32_t self;
uint32_t size_of_job;
int64_t incarnation;    // when this one has begun
std::atomic<long> step; // collectives that this rank has entered
std::vector<char> parent_environment;
std::vector<const char *> parent_variables;

void deliver(void *, bookmark::Bytes message)
{
    rank_part->handle(message);
}

// The new job's environment is that of the parent, cr_restart.
void read_parent_environment()
{
    char path[64];
    snprintf(path, sizeof(path), "/proc/%d/environ", getppid());
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    parent_environment.assign(1 << 20, 0);
    const ssize_t n = read(fd, parent_environment.data(), parent_environment.size() - 1);
    close(fd);
    parent_variables.clear();
    for (char *at = parent_environment.data(); at < parent_environment.data() + n;
         at += strlen(at) + 1)
        parent_variables.push_back(at);
    parent_variables.push_back(nullptr);
}

int64_t now_ns()
{
    timespec now = {};
    clock_gettime(CLOCK_BOOTTIME, &now);
    return now.tv_sec * int64_t(1'000'000'000) + now.tv_nsec;
}

void bear_witness(const char *directory)
{
    const std::string name = std::string(directory) + "/acts." + std::to_string(self);
    const int file = open(name.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    int64_t youngest = 0;
    if (pread(file, &youngest, sizeof(youngest), 0) == sizeof(youngest) && youngest > incarnation)
        close(open((std::string(directory) + "/doubled").c_str(), O_WRONLY | O_CREAT, 0600));
    else
        static_cast<void>(pwrite(file, &incarnation, sizeof(incarnation), 0) > 0);
    close(file);
}

void after_restart()
{
    incarnation = now_ns();
    read_parent_environment();
    const int connected = link_side.connect(parent_variables.data(), self, size_of_job);
    dprintf(STDOUT_FILENO, "rank %u: restarted at step %ld%s%s\n", self, step.load(),
            connected < 0 ? ", alone: " : "", connected < 0 ? link_side.why() : "");
    rank_part->restarted();
}

void stand_still()
{
    link_side.receive(deliver, nullptr);
    while (rank_part->pending() && rank_part->must_hold()) {
        rank_part->serve();
        if (rank_part->phase() == bookmark::Rank::Phase::drained) {
            const coord::TookImage took = link_side.take_image();
            if (took == coord::TookImage::restarted)
                after_restart();
            else
                rank_part->saved(took == coord::TookImage::saved);
        } else if (rank_part->pending()) { // unless serve() ended the checkpoint
            link_side.wait(1000);
        }
        link_side.receive(deliver, nullptr);
    }
}

// Called in the handler, while the program computes outside of "MPI".
void arrived(void *)
{
    if (busy) {
        missed = true;
        return;
    }
    busy = true;
    stand_still();
    busy = false;
}

void compute(long microseconds)
{
    const timespec time = {microseconds / 1000000, microseconds % 1000000 * 1000};
    busy = false;
    if (missed) {
        missed = false;
        arrived(nullptr);
    }
    nanosleep(&time, nullptr);
    busy = true;
}

uint32_t number(const char *name)
{
    const char *value = getenv(name);
    return value != nullptr ? static_cast<uint32_t>(atoi(value)) : 0;
}

void end_with_a_word(int /*signal*/)
{
    const bool given_up = strcmp(getenv("FAKE_ENDS"), "given_up") == 0;
    coord::tell_end(given_up ? coord::Ending::given_up : coord::Ending::by_itself);
    _exit(14);
}

// A connection for good to a socket of this name; behind '@' to an abstract one, whose
// name is filled up with NULs, as that of a program which binds a whole sockaddr_un.
bool connect_outside(const char *name)
{
    sockaddr_un address = {};
    address.sun_family = AF_UNIX;
    strncpy(address.sun_path, name, sizeof(address.sun_path) - 1);
    if (address.sun_path[0] == '@')
        address.sun_path[0] = 0;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    return connect(fd, reinterpret_cast<const sockaddr *>(&address), sizeof(address)) == 0;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc < 3)
        return 2;
    const long steps = atol(argv[1]);
    self = number("OMPI_COMM_WORLD_RANK");
    size_of_job = number("OMPI_COMM_WORLD_SIZE");
    link_side.on_arrival(arrived, nullptr);
    static bookmark::Rank rank({.self = self, .ranks = size_of_job}, link_side, mpi);
    rank_part = &rank;
    if (link_side.connect(environ, self, size_of_job) < 0)
        printf("rank %u: alone: %s\n", self, link_side.why());
    std::vector<bookmark::WorldRank> peers;
    for (uint32_t i = 0; i < size_of_job; i++)
        peers.push_back(i);
    bookmark::Comm &world = rank.made(1, size_of_job, peers, size_of_job);
    if (const char *outside = getenv("FAKE_CONNECT");
        outside != nullptr && !connect_outside(outside))
        return 1;
    if (getenv("FAKE_ENDS") != nullptr)
        signal(SIGUSR1, end_with_a_word);
    const std::string mark = std::string(argv[2]) + "/started." + std::to_string(self);
    close(open(mark.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));

    // More memory than a few pages, for tests that need images to take some time.
    const size_t ballast = size_t(number("FAKE_MEGABYTES")) << 20;
    std::vector<char> memory(ballast, static_cast<char>(self + 1));
    // Otherwise fast ranks wait at a cut until the slow ones catch up.
    const bool even = number("FAKE_EVEN") != 0;
    // Before its last step a rank waits for this file: a test that has other things to do first
    // says when the job may end.
    const std::string end = getenv("FAKE_HELD") != nullptr ? std::string(argv[2]) + "/end" : "";
    const char *witness = getenv("FAKE_WITNESS");
    incarnation = now_ns();
    unsigned long sum = self;
    while (step < steps) {
        if (witness != nullptr && step % 10 == 0)
            bear_witness(witness);
        stand_still();
        if (step == steps - 1 && !end.empty() && access(end.c_str(), F_OK) != 0) {
            compute(1000);
            continue;
        }
        rank.collectives().enter(world);
        // Inside the collective, because a cut is about collectives: a rank held before the next
        // one has done as much as a rank that still computes after this one.
        sum = sum * 6364136223846793005UL + static_cast<unsigned long>(step++);
        rank.collectives().leave();
        stand_still();
        compute(even ? 250 : 150 + 100L * (self % 3));
    }
    for (const char byte : memory)
        sum += static_cast<unsigned char>(byte) != static_cast<unsigned char>(self + 1);
    printf("rank %u: %ld steps, %lu\n", self, steps, sum);
    fflush(stdout);
    link_side.disconnect();
    return 0;
}
