// SPDX-License-Identifier: Apache-2.0
//
// A job in one thread: ranks that execute a Program through the bookmark library as the wrappers
// would, on a simulated MPI library, beside a tree of nodes. A seeded scheduler decides which
// message, step or delay is next, requests checkpoints at random moments, and at each cut either
// lets all ranks continue or replaces their library (a restart).
//
//     Report r = run({.seed = 7, .program = &program});
//     EXPECT_EQ(r.fault, "");
#pragma once

#include <array>
#include <random>

#include "program.hpp"

namespace cryo::bookmark::sim {

// Each value breaks the protocol, or its use, in one place. Every one must be noticed.
enum class Sabotage : uint8_t {
    none,
    send_not_counted,
    receive_counted_twice,
    send_counted_late,     // after the library's send instead of before it
    collective_not_ticked, // a rank forgets to count
    nonblocking_collective_not_ticked,
    drained_ignored,      // new receives ignore drained messages
    drained_newest_first, // drains in the wrong order
    oldest_withdrawn_first,
    match_taken_for_withdrawn, // "not cancelled" means received
    matched_probe_kept,        // a matched probe is not drained
    targets_lost,
    raise_lost,
    need_lost,
    ready_not_renewed, // a ready that is out of date is taken as final
    expected_too_small,
    expected_early, // all ranks are taken for ready
    go_early,       // all ranks are taken for drained
    links_overtake, // the tree does not keep the order
    last
};
std::string name(Sabotage sabotage);

struct Options {
    uint64_t seed = 1;
    const Program *program = nullptr;
    int checkpoints = 3;
    bool deaths = false;    // a rank dies at some moment
    bool failures = false;  // some saves fail
    bool obeys = false;     // gives the program the checkpoints it asks for
    bool impatient = false; // abandons a checkpoint that cannot complete
    Sabotage sabotage = Sabotage::none;
};

struct Report {
    std::string fault; // the first thing that was wrong, or empty
    std::vector<uint64_t> digests;
    int done = 0;      // checkpoints
    int abandoned = 0; // checkpoints
    int restarts = 0;
    uint64_t drained = 0;   // messages that waited in drain buffers at a cut
    uint64_t withdrawn = 0; // receives
    uint64_t raises = 0;
    uint64_t needs = 0;
    int versions = 0;  // calls of MPI_Ckpt that returned with the version saved
    int straddled = 0; // calls that a message or collective crossed
    unsigned most_rounds = 0;
    std::vector<std::string> waiting; // which rank waits for which, if it does not end
};

Report run(const Options &options);

} // namespace cryo::bookmark::sim
