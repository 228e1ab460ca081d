// SPDX-License-Identifier: Apache-2.0
//
// Shared mappings: which contents are saved, and as what the mappings are restored.
//
// The contents of a file with a descriptor are saved with the descriptor (files/file_contents.hpp),
// and a file with a name stays where it is, unless its contents were asked for or it is POSIX
// shared memory or a JVM's counters. What remains exists only in its mappings and is read through
// them: shared anonymous memory, and files and memfds without name and descriptor.
//
//     SharedMappings shared(d, common, is_first);
//     for (...)
//         shared.add(mapping, region); // changes the region
//     finish_shared(first, common);    // after all processes have been looked at
//
// All contents go into the image of the first process, no matter which process maps them.
#pragma once

#include "capture/process/describe.hpp"

namespace cryo::capture {

class SharedMappings
{
  public:
    SharedMappings(Description &d, SharedContents &common, bool is_first)
        : d_(d), common_(common), is_first_(is_first)
    {}

    // `region` must be filled in as for any mapping; for a file, including its FILE.
    void add(const Mapping &m, image::Region &region);

  private:
    void add_part(const Mapping &m, SharedContents::Contents &contents, uint64_t page,
                  bool is_memory);

    Description &d_;
    SharedContents &common_;
    bool is_first_;
};

void finish_shared(Description &first, SharedContents &common);

} // namespace cryo::capture
