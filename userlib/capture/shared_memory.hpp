// SPDX-License-Identifier: Apache-2.0
//
// Shared mappings: whose contents are saved, and as what they come back.
//
// What a descriptor leads to is saved with that descriptor (files_contents.cpp), and a file with a
// name is left where it is, unless its contents were asked for or it is POSIX shared memory. The
// rest has only its mappings, and is read through them: shared anonymous memory, and files and
// memfds without name and descriptor.
//
//     SharedMappings shared(d, common, is_first);
//     for (...)
//         shared.add(mapping, region); // changes the region
//     finish_shared(first, common);    // when all processes have been looked at
//
// All of it goes into the image of the first process, whoever has it mapped.
#pragma once

#include "capture/describe.hpp"

namespace cryo::capture {

class SharedMappings
{
  public:
    SharedMappings(Description &d, SharedContents &common, bool is_first)
        : d_(d), common_(common), is_first_(is_first)
    {}

    // `region` is filled in as for any mapping; of a file, with its FILE.
    void add(const Mapping &m, image::Region &region);

  private:
    void add_part(const Mapping &m, SharedContents::Contents &contents, uint64_t page);

    Description &d_;
    SharedContents &common_;
    bool is_first_;
};

void finish_shared(Description &first, SharedContents &common);

} // namespace cryo::capture
