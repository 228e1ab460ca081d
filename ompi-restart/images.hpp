// SPDX-License-Identifier: Apache-2.0
//
// The images of a snapshot before its restart: what its directory lacks is brought from nodes, and
// made again.
#pragma once

#include "options.hpp"

#include "base/result.hpp"
#include "base/trust.hpp"
#include "coord/snapshot.hpp"

// What the snapshot's directory lacks is made again, if its nodes have what it takes.
cryo::Result<void> make_whole(const cryo::coord::SnapshotStore &store,
                              const cryo::coord::Snapshot &snapshot, const cryo::Trust &trust,
                              const Options &options);

// Copies there what this node has, for a restart elsewhere. Returns the exit code.
int bring(const cryo::coord::SnapshotStore &store, const cryo::coord::Snapshot &snapshot,
          const cryo::Trust &trust, const Options &options);
