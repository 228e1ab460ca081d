// SPDX-License-Identifier: Apache-2.0
//
// Per-thread and memory settings that leave hardly a trace in /proc: privileges that differ between
// threads, settings of prctl(2), and NUMA policies.
//
//     describe_credentials(d, first_status, status, facts, thread); // for each thread
//     describe_settings(d.strings, facts, thread);
//     refuse_guards(d);
//     describe_policy(d.strings, facts.policy, thread.numa_mode, thread.numa_nodes);
#pragma once

#include "capture/process/describe.hpp"

namespace cryo::capture {

// `status` of this thread and `first` of the main one, from /proc. Differing ids are a problem.
void describe_credentials(Description &d, std::string_view first, std::string_view status,
                          const agent::ThreadFacts &facts, image::Thread &thread);

// Refuses guard pages (MADV_GUARD_INSTALL) in mappings of saved files and in shared mappings.
void refuse_guards(Description &d);

void describe_settings(Strings &strings, const agent::ThreadFacts &facts, image::Thread &thread);

void describe_policy(Strings &strings, const agent::Policy &policy, uint32_t &mode,
                     image::Bytes &nodes);

} // namespace cryo::capture
