// SPDX-License-Identifier: Apache-2.0
//
// Memory that several mappings share, within one process or across several, and whose contents are
// saved: each page once, through whichever mapping has it.
//
//     SharedContents contents;
//     contents.count(space);                        // every process, before anything else
//     contents.refuse_hidden(space, problems);
//     contents.is_mapped_once(mapping);
//     contents.take(it, first_page, end_page);      // the part that has not been taken yet
#pragma once

#include "image/records.hpp"
#include "look/regions.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace cryo::capture {

class SharedContents
{
  public:
    using Key = std::pair<uint64_t, uint64_t>; // device, inode
    struct Contents {
        uint32_t object = 0;
        image::ObjectKind kind = image::ObjectKind::file_contents;
        uint64_t size = 0;
        uint32_t file = 0;                  // FILE, or 0
        std::map<uint64_t, uint64_t> taken; // pages: begin → end
    };
    using Pages = std::pair<uint64_t, uint64_t>; // begin, end

    static Key key_of(const Mapping &m) { return {m.device, m.inode}; }

    void count(const AddressSpace &space);
    // Refuses memory that remap_file_pages has rearranged if some of it is currently mapped
    // nowhere: such pages can be neither read nor even detected.
    void refuse_hidden(const AddressSpace &space, Problems &problems) const;
    // Anonymous shared memory with a single mapping in all processes.
    bool is_mapped_once(const Mapping &m) const;
    Contents *find(const Mapping &m);
    Contents &of(const Mapping &m) { return all_[key_of(m)]; }
    static std::vector<Pages> take(Contents &contents, uint64_t begin, uint64_t end);
    std::map<Key, Contents> &all() { return all_; }

  private:
    struct Mapped {
        size_t mappings = 0;
        Contents parts; // only its `taken` is used
        uint64_t pages = 0;
    };

    std::map<Key, Mapped> mapped_;
    std::map<Key, Contents> all_;
};

} // namespace cryo::capture
