// SPDX-License-Identifier: Apache-2.0
//
// make_coordinator_seeds DIRECTORY: writes inputs of the peers of a job's first daemon, in the
// format of coordinator_fuzz.cpp, into DIRECTORY/seeds: checkpoints that complete, and ways in
// which one has failed before.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

std::filesystem::path to;

enum What : uint8_t {
    rank = 0,
    rank_gone = 1,
    placed = 2,
    prepared = 4,
    cut = 5,
    image = 6,
    image_failed = 7,
    idle = 8,
    alive = 9,
    member_gone = 10,
    checkpoint = 14,
    call_off = 15,
    go_on = 16,
    follow = 17,
    rank_here = 21,
    frame_of_rank = 22,
    commit = 24,
};

std::string step(What what, uint8_t node = 0, uint8_t number = 0, uint8_t how = 0)
{
    return {static_cast<char>(what), static_cast<char>(node + 3 * number), static_cast<char>(how)};
}

void seed(const char *name, bool ranks_here, const std::string &steps)
{
    std::ofstream(to / name, std::ios::binary) << static_cast<char>(ranks_here) << steps;
}

} // namespace

int main(int argc, char **argv)
{
    if (argc != 2) {
        fprintf(stderr, "usage: make_coordinator_seeds DIRECTORY\n");
        return 255;
    }
    to = std::filesystem::path(argv[1]) / "seeds";
    std::filesystem::create_directories(to);
    const std::string all_prepared = step(prepared, 0) + step(prepared, 1) + step(prepared, 2);
    const std::string job =
        step(rank, 0, 0, 2) + step(rank, 1, 1, 2) + step(placed, 0) + step(placed, 1);
    const std::string running = job + step(checkpoint) + all_prepared;
    const std::string images = step(image, 0, 0, 9) + step(image, 1, 1, 9) + step(commit);
    const std::string cuts = step(cut, 0, 0) + step(cut, 1, 1);
    seed("stopped", false, running + cuts + step(alive, 0, 0, 1) + images + step(go_on));
    seed("twice", false, running + images + step(go_on) + step(checkpoint) + all_prepared + images);
    const std::string idle_all = step(idle, 0) + step(idle, 1) + step(idle, 2);
    seed("called_off", false, running + step(follow) + step(call_off) + idle_all);
    seed("failed", false, running + cuts + step(image_failed, 1, 1) + idle_all);
    seed("member_gone", false, running + cuts + step(member_gone, 1));
    seed("ranks_here", true,
         step(rank_here, 0, 0, 1) + step(checkpoint) + all_prepared + step(frame_of_rank, 0, 0, 5));
    // The job's ranks have frozen copies and end; the next mpirun, with one rank, begins while the
    // images are written.
    seed("next_job", false,
         running + cuts + step(rank_gone, 0, 0) + step(rank_gone, 1, 1) + step(rank, 0, 0, 11) +
             images);
    // The ranks have ended, and then the daemon that writes the frozen copy of one of them ends.
    seed("daemon_of_copies_gone", false,
         running + cuts + step(rank_gone, 0, 0) + step(rank_gone, 1, 1) + step(image, 0, 0, 9) +
             step(member_gone, 1));
    // A daemon reports for a rank that it does not have.
    seed("of_others", false,
         running + step(cut, 0, 1) + step(image, 0, 1, 9) + step(image, 0, 0, 9));
    return 0;
}
