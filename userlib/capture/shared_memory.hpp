// SPDX-License-Identifier: Apache-2.0
//
// Shared mappings: whose contents are saved, and as what they come back.
//
// What a descriptor leads to is saved with that descriptor (files_contents.cpp), and a file with a
// name is left where it is, unless its contents were asked for. The rest has only its mappings, and
// is read through them: shared anonymous memory, and files and memfds without name and descriptor.
//
//     SharedMappings shared(d);
//     for (...)
//         shared.add(mapping, region); // changes the region
//     shared.finish();                 // d.shared and d.shared_objects are complete
#pragma once

#include "capture/describe.hpp"

#include <map>

namespace cryo::capture {

class SharedMappings
{
  public:
    explicit SharedMappings(Description &d);

    // `region` is filled in as for any mapping; of a file, with its FILE.
    void add(const Mapping &m, image::Region &region);
    void finish();

  private:
    using Key = std::pair<uint64_t, uint64_t>; // device, inode
    struct Contents {
        uint32_t object = 0;
        image::ObjectKind kind = image::ObjectKind::file_contents;
        uint64_t size = 0;
        uint32_t file = 0;
    };
    void add_part(const Mapping &m, Contents &contents, uint64_t page);

    Description &d_;
    std::map<Key, size_t> mappings_; // how many there are of one shared anonymous memory
    std::map<Key, Contents> contents_;
};

} // namespace cryo::capture
