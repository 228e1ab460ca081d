// SPDX-License-Identifier: Apache-2.0
// What the module's events are counted as.
#include "metrics/tally.hpp"

#include <cerrno>
#include <gtest/gtest.h>

namespace cryo::metrics {

namespace {

std::string text_of(const Tally &tally, bool hears = true)
{
    Exposition text;
    tally.add(text, hears);
    return text.text();
}

void expect_value(const Tally &tally, const std::string &name, const std::string &value)
{
    const std::string text = text_of(tally);
    EXPECT_NE(text.find("\n" + name + " " + value + "\n"), std::string::npos) << text;
}

TEST(Tally, Counts)
{
    Tally tally;
    tally.count({.operation = CRYO_OP_CHECKPOINT, .phase = CRYO_PHASE_STARTED});
    tally.count({.operation = CRYO_OP_CHECKPOINT, .phase = CRYO_PHASE_PROGRESS, .bytes_done = 500});
    tally.count(
        {.operation = CRYO_OP_CHECKPOINT, .phase = CRYO_PHASE_FINISHED, .bytes_done = 4096});
    tally.count({.operation = CRYO_OP_CHECKPOINT, .phase = CRYO_PHASE_FINISHED, .bytes_done = 1});
    tally.count({.operation = CRYO_OP_CHECKPOINT, .phase = CRYO_PHASE_FAILED, .error = EIO});
    tally.count({.operation = CRYO_OP_RESTART, .phase = CRYO_PHASE_FINISHED, .bytes_done = 4096});
    tally.count({.operation = CRYO_OP_RESTART, .phase = CRYO_PHASE_FAILED, .error = EBUSY});
    tally.count({.operation = CRYO_OP_RESTART, .phase = CRYO_PHASE_FAILED, .error = EBUSY});
    tally.lost();
    expect_value(tally, "cryo_node_checkpoints_total", "2");
    expect_value(tally, "cryo_node_checkpoint_failures_total", "1");
    expect_value(tally, "cryo_node_restarts_total", "1");
    expect_value(tally, "cryo_node_restart_failures_total", "2");
    expect_value(tally, "cryo_node_written_bytes_total", "4097");
    expect_value(tally, "cryo_node_event_losses_total", "1");
}

TEST(Tally, OperationsOfALaterModuleAreUnknown)
{
    Tally tally;
    for (const uint32_t operation : {0U, 3U, UINT32_MAX})
        tally.count({.operation = operation, .phase = CRYO_PHASE_FINISHED, .bytes_done = 4096});
    tally.count({.operation = CRYO_OP_CHECKPOINT, .phase = 77, .bytes_done = 4096}); // nor counted
    expect_value(tally, "cryo_node_unknown_operations_total", "3");
    for (const char *known :
         {"checkpoints", "checkpoint_failures", "restarts", "restart_failures", "written_bytes"})
        expect_value(tally, std::string("cryo_node_") + known + "_total", "0");
}

// A sum that wraps around would be taken for a restart of cr_metrics.
TEST(Tally, LargestSizes)
{
    Tally tally;
    const Event largest = {
        .operation = CRYO_OP_CHECKPOINT, .phase = CRYO_PHASE_FINISHED, .bytes_done = UINT64_MAX};
    tally.count(largest);
    tally.count(largest);
    expect_value(tally, "cryo_node_written_bytes_total", "36893488147419103232");
}

TEST(Tally, WhetherEventsAreHeard)
{
    EXPECT_NE(text_of(Tally(), true).find("\ncryo_node_events_up 1\n"), std::string::npos);
    EXPECT_NE(text_of(Tally(), false).find("\ncryo_node_events_up 0\n"), std::string::npos);
}

} // namespace

} // namespace cryo::metrics
