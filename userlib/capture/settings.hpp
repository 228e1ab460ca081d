// SPDX-License-Identifier: Apache-2.0
//
// What threads and memory were given by system calls that leave hardly a trace in /proc: privileges
// that differ from thread to thread, and NUMA policies.
//
//     describe_credentials(d, first_status, status, facts, thread); // of each thread
//     refuse_guards(d);
//     describe_policy(d.strings, facts.policy, thread.numa_mode, thread.numa_nodes);
#pragma once

#include "capture/describe.hpp"

namespace cryo::capture {

// `status` of the thread, and of the first one, as /proc shows it. Ids that differ are a problem.
void describe_credentials(Description &d, std::string_view first, std::string_view status,
                          const agent::ThreadFacts &facts, image::Thread &thread);

// Guard pages (MADV_GUARD_INSTALL) in front of what only the file or other mappings can show again.
void refuse_guards(Description &d);

void describe_policy(Strings &strings, const agent::Policy &policy, uint32_t &mode,
                     image::Bytes &nodes);

} // namespace cryo::capture
