// SPDX-License-Identifier: Apache-2.0
//
// Where the parts of a job meet, worked out from the environment alone, by ranks (in places where
// nothing but strings may be touched), daemons and commands:
//
// CRYO_JOB: ID:SECRET:PORT:ADDRESS,ADDRESS..., the job, and its first daemon on the net.
// CRYO_RUNTIME_DIR: where jobs have their directory; by default cryo in XDG_RUNTIME_DIR,
// if that belongs to the user alone and is not below /run/user, which is removed when the
// user logs out; else /tmp/cryo-UID. If another user has made that, the job's first
// daemon makes another one, and passes its name on in this variable.
// CRYO_NODE: the name of this node; by default that of the host.
// CRYO_DAEMON: the daemon's program.
//
// RUNTIME_DIR/ID/NODE is the socket on which a node's daemon takes ranks, RUNTIME_DIR/ID/.root the
// one on which the job's first daemon takes commands.
#pragma once

#include <cstddef>

namespace cryo::coord {

inline constexpr const char *job_variable = "CRYO_JOB";
inline constexpr const char *common_runtime = "/tmp/cryo-"; // and the user

const char *variable(const char *const *environment, const char *name); // null: not set
bool node_socket(const char *const *environment, char *path, size_t size);
bool daemon_path(const char *const *environment, char *path, size_t size);
bool job_directory(const char *const *environment, char *path, size_t size);
bool runtime_directory(const char *const *environment, char *path, size_t size);
// The runtime directory of another user, from that user's environment.
bool runtime_directory(const char *const *environment, unsigned uid, char *path, size_t size);
bool node_name(const char *const *environment, char *name, size_t size);

} // namespace cryo::coord
