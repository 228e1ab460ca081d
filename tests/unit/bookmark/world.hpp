// SPDX-License-Identifier: Apache-2.0
//
// A job in one thread: ranks that execute a Program through the bookmark library as the wrappers
// would, a simulated MPI library under them, a tree of nodes beside them. A seeded scheduler
// decides which message, step or delay is next, asks for checkpoints at random moments, and at
// each cut either lets all go on or takes their library away (a restart).
//
//     Report r = run({.seed = 7, .program = &program});
//     EXPECT_EQ(r.fault, "");
#pragma once

#include <array>
#include <random>

#include "program.hpp"

namespace cryo::bookmark::sim {

// Each breaks the protocol, or the way it is used, in one place. All must be noticed.
enum class Sabotage : uint8_t {
    none,
    send_not_counted,
    receive_counted_twice,
    send_counted_late,     // not before the library's send, but after it
    collective_not_ticked, // a rank forgets to count
    nonblocking_collective_not_ticked,
    drained_ignored,      // new receives do not look at drained messages
    drained_newest_first, // drains in the wrong order
    oldest_withdrawn_first,
    match_taken_for_withdrawn, // "not cancelled" means received
    matched_probe_kept,        // a matched probe is not drained
    targets_lost,
    raise_lost,
    need_lost,
    ready_not_renewed, // a ready that is out of date is taken for good
    expected_too_small,
    expected_early, // all are taken for ready
    go_early,       // all are taken for drained
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
    bool impatient = false; // gives a checkpoint up that nobody can help
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
    std::vector<std::string> waiting; // who waits for whom, when it does not end
};

Report run(const Options &options);

} // namespace cryo::bookmark::sim
