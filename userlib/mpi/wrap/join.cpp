// SPDX-License-Identifier: Apache-2.0
#include "mpi/wrap/join.hpp"
#include "functions.gen.hpp"
#include "mpi/rank/engine.hpp"
#include "mpi/rank/meetings.hpp"
#include "mpi/rank/packet_link.hpp"
#include "mpi/rank/partitioned.hpp"
#include "mpi/rank/tree_channel.hpp"
#include "mpi/stock/fatal.hpp"
#include "mpi/wrap/ends.hpp"
#include "mpi/wrap/placement.hpp"
#include "mpi/wrap/replay.hpp"
#include "mpi/wrap/revive.hpp"
#include "sys/own_variable.hpp"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace cryo::mpi {

using namespace rank;

namespace {

using capsule::call;

uint32_t self;
uint32_t ranks;

// Constructed in place and never destroyed: the last exit functions may still call MPI.
TreeChannel &tree()
{
    alignas(TreeChannel) static char place[sizeof(TreeChannel)];
    static auto *made = new (place) TreeChannel;
    return *made;
}

void say_why(const char *why)
{
    say("rank %u: %s", self, why);
}

TookImage take_image(void * /*data*/)
{
    capsule::Refusal why;
    if (!describe_handles(why)) {
        say_why(why.text);
        return TookImage::failed;
    }
    switch (tree().take_image([] { engine->help_others(); })) {
    case coord::TookImage::restarted:
        return TookImage::restored;
    case coord::TookImage::saved:
        forget_description();
        return TookImage::saved;
    case coord::TookImage::failed:
        break;
    }
    forget_description();
    return TookImage::failed;
}

// The first call into the library loads a new one and recreates the handles.
bool bring_back(void * /*data*/, capsule::Refusal & /*why*/)
{
    ready();
    if (tree().connect(job_environment(), self, ranks) < 0)
        say_why(tree().why());
    tell_of_restart();
    return true;
}

// In tests: a daemon that saves nothing.
bool join_test()
{
    const char *path = sys::own_variable("CRYO_RANK_SOCKET");
    if (path == nullptr)
        return false;
    const int fd = PacketLink::connect(path, self);
    if (fd < 0)
        fatal("%s: the daemon does not answer: %s", path, strerrordesc_np(errno));
    alignas(PacketLink) static char place[sizeof(PacketLink)];
    begin({.channel = new (place) PacketLink(fd)});
    return true;
}

} // namespace

void join_job()
{
    const auto world = static_cast<MPI_Comm>(object_of(MPI_COMM_WORLD)->real);
    int number = 0;
    int count = 0;
    call(stock.Comm_rank, world, &number);
    call(stock.Comm_size, world, &count);
    self = static_cast<uint32_t>(number);
    ranks = static_cast<uint32_t>(count);
    note_node();
    if (!join_test() && sys::own_variable("CRYO_JOB") == nullptr)
        return;
    if (!engine_counts) {
        tell_of_ends();
        if (tree().connect(environ, self, ranks) < 0)
            say_why(tree().why());
        else
            begin({.channel = &tree(), .take_image = take_image, .revive = bring_back});
    }
    prepare_partitioned();
    prepare_meetings(); // even if this rank could not join: the others do
}

} // namespace cryo::mpi
