// SPDX-License-Identifier: Apache-2.0
//
// What snapshots hold: ompi-restart --info.
#pragma once

#include "coord/snapshot.hpp"

// Returns the exit code.
int show_snapshots(const cryo::coord::SnapshotStore &store, bool as_json);
