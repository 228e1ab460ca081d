// SPDX-License-Identifier: Apache-2.0
//
// The metadata of global snapshots as text, with Open MPI's keys and ours
// (docs/coordinator.md). The second line says that the last one has a checksum of all, so
// that a truncated or damaged file is not mistaken for a shorter list. Metadata without
// these lines were written by an older Cryo, which named finished snapshots only.
//
//     Result<std::map<int, Snapshot>> all = parse_metadata(text);
//     std::string text = metadata_text(all);
#pragma once

#include "coord/snapshot.hpp"

namespace cryo::coord {

// The error says what is wrong with the text, without the file's name.
Result<std::map<int, Snapshot>> parse_metadata(const std::string &text, Depth depth = Depth::whole);
std::string metadata_text(const std::map<int, Snapshot> &all);
std::string local_metadata_text(const SnapshotImage &image);
// What a rank's metadata say of its image; false: they name none, or none that is possible.
bool read_local_metadata(const std::string &text, SnapshotImage &image);
// The name of the image in a rank's metadata, which is that of a file beside it.
Result<std::string> context_in(const std::string &text);
// The copy on a node that a rank's metadata name; none if they name none, or no possible one.
std::optional<LocalCopy> local_copy_in(const std::string &text);

// A number as it is written in names: no sign, no leading zeros; −1: not such a number.
int seq_of(std::string_view name);
// No path, no hidden file, no control characters.
bool is_plain_name(std::string_view name);

} // namespace cryo::coord
