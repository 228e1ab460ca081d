// SPDX-License-Identifier: Apache-2.0
// The parts of the process that belong to its lodger (lodger.hpp).
#include "agent/agent.hpp"
#include "sys/raw.hpp"

#include <atomic>
#include <cstddef>
#include <sys/socket.h>

namespace cryo::agent {

constinit std::atomic<const Lodger *> lodger;

namespace {

constinit bool was_told_to_stop;

// Static: the handler's stack may be small. Only the leader uses it.
LodgerFacts facts;
LodgerRefusal why;

bool is_somebody_inside()
{
    if (is_lodgers_address(state.slots[max_threads].facts.fs_base))
        return true;
    for (size_t i = 0; i < state.threads; i++) {
        if (is_lodgers_address(state.slots[i].facts.fs_base))
            return true;
    }
    return false;
}

} // namespace

void set_lodger(const Lodger *whose)
{
    lodger.store(whose);
}

bool is_lodgers_thread(int tid)
{
    const Lodger *one = lodger.load();
    return one != nullptr && one->owns_thread(tid);
}

bool is_lodgers_address(uint64_t address)
{
    const Lodger *one = lodger.load();
    LodgerRange range;
    for (uint32_t i = 0; one != nullptr && one->range(i, &range); i++) {
        if (address >= range.start && address < range.end)
            return true;
    }
    return false;
}

bool send_lodger(int connection)
{
    Reply answer = {protocol_magic, protocol_version, Op::lodger, 0, 0, 0};
    if (const Lodger *one = lodger.load()) {
        answer.count = 1;
        facts = {};
        why = {};
        if (!is_somebody_inside()) { // otherwise the checkpointer names the thread
            was_told_to_stop = true;
            facts.refused = !one->stopped(&why);
        }
        __builtin_memcpy(facts.what, why.what, sizeof(facts.what));
        __builtin_memcpy(facts.way_out, why.way_out, sizeof(facts.way_out));
        LodgerRange range;
        while (one->range(facts.range_count, &range)) {
            if (facts.range_count == lodger_ranges) {
                facts.refused = true;
                break;
            }
            facts.ranges[facts.range_count][0] = range.start;
            facts.ranges[facts.range_count++][1] = range.end;
        }
        for (int fd = 0; fd < lodger_fds; fd++) {
            if (one->owns_fd(fd))
                facts.fds[fd / 64] |= uint64_t(1) << (fd % 64);
        }
    }
    const auto send = [connection](const void *data, size_t size) {
        return send_packet(connection, data, size) == static_cast<long>(size);
    };
    return send(&answer, sizeof(answer)) && (answer.count == 0 || send(&facts, sizeof(facts)));
}

void tell_lodger_to_go_on()
{
    const Lodger *one = lodger.load();
    if (one != nullptr && was_told_to_stop)
        one->going_on();
    was_told_to_stop = false;
}

void tell_lodger_of_fork()
{
    const Lodger *one = lodger.load();
    if (one != nullptr && one->size > offsetof(Lodger, forked))
        one->forked();
}

void tell_lodger_of_restart()
{
    const int environment = state.resume.environment - 1;
    state.resume.environment = 0;
    was_told_to_stop = false;
    if (const Lodger *one = lodger.load())
        one->restarted(environment);
    if (environment >= 0)
        sys::call(SYS_close, environment);
}

} // namespace cryo::agent
