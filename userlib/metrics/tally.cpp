// SPDX-License-Identifier: Apache-2.0
#include "metrics/tally.hpp"

namespace cryo::metrics {

namespace {

constexpr Family events_up = {"cryo_node_events_up", Type::gauge,
                              "Whether the kernel module's events are heard."};
constexpr Family checkpoints = {"cryo_node_checkpoints_total", Type::counter,
                                "Checkpoints that processes of this machine announced."};
constexpr Family checkpoint_failures = {"cryo_node_checkpoint_failures_total", Type::counter,
                                        "Checkpoints that were announced to have failed."};
constexpr Family restarts = {"cryo_node_restarts_total", Type::counter,
                             "Restarts that processes of this machine announced."};
constexpr Family restart_failures = {"cryo_node_restart_failures_total", Type::counter,
                                     "Restarts that were announced to have failed."};
constexpr Family bytes = {"cryo_node_written_bytes_total", Type::counter,
                          "Size of the images of announced checkpoints."};
constexpr Family losses = {"cryo_node_event_losses_total", Type::counter,
                           "How often events were lost since they came too fast."};
constexpr Family unknown = {"cryo_node_unknown_operations_total", Type::counter,
                            "Events of operations that only a later kernel module has."};

} // namespace

void Tally::count(const Event &event)
{
    const bool checkpoint = event.operation == CRYO_OP_CHECKPOINT;
    if (!checkpoint && event.operation != CRYO_OP_RESTART) {
        unknown_++;
        return;
    }
    if (event.phase == CRYO_PHASE_FINISHED) {
        (checkpoint ? checkpoints_ : restarts_)++;
        bytes_ += checkpoint ? static_cast<double>(event.bytes_done) : 0;
    }
    if (event.phase == CRYO_PHASE_FAILED)
        (checkpoint ? checkpoint_failures_ : restart_failures_)++;
}

void Tally::add(Exposition &text, bool hears) const
{
    text.add(events_up, {}, hears ? 1 : 0);
    text.add(checkpoints, {}, checkpoints_);
    text.add(checkpoint_failures, {}, checkpoint_failures_);
    text.add(restarts, {}, restarts_);
    text.add(restart_failures, {}, restart_failures_);
    text.add(bytes, {}, bytes_);
    text.add(losses, {}, losses_);
    text.add(unknown, {}, unknown_);
}

} // namespace cryo::metrics
