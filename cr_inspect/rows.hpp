// SPDX-License-Identifier: Apache-2.0
//
// The lines of the lists: mappings, descriptors, files, as text for people. What comes from the
// image is printable.
//
//     for (const MappingRow &row : mapping_rows(about))
//         table.add({row.what, pages_text(row.stored.data)});
#pragma once

#include "description.hpp"

namespace cryo::inspect {

struct MappingRow {
    image::Region region = {};
    PageCounts stored = {};
    std::string what = {}; // "/usr/bin/melt", "[heap]"
};

std::vector<MappingRow> mapping_rows(const Description &about);
std::string protection_text(const image::Region &region); // "rw-p"
std::string stored_text(const PageCounts &pages);         // "132.0 KiB + 28.0 KiB zero"

// Of several mappings.
struct MappingSum {
    uint64_t mappings = 0;
    uint64_t size = 0; // pages, as the others
    uint64_t present = 0;
    PageCounts stored = {};

    void add(const image::Region &region, const PageCounts &pages);
    void add(const MappingRow &row) { add(row.region, row.stored); }
    void operator+=(const MappingSum &more);
};

struct DescriptorRow {
    image::Descriptor descriptor = {};
    std::optional<image::OpenFile> open_file = {}; // none: the image lacks it
    std::optional<image::File> file = {};          // likewise
    std::string mode = {};                         // "rw append cloexec"
    std::string name = {};                         // of the file
    std::string contents = {};                     // "saved: object 2, 8.0 KiB"
};

std::vector<DescriptorRow> descriptor_rows(const Description &about);

// A file that no descriptor of the image leads to.
struct FileRow {
    image::File file = {};
    std::string name = {};
    std::string contents = {};
};

std::vector<FileRow> other_file_rows(const Description &about);

// Lists what a restart cannot restore alone, contents that are in no image, and notices. One line
// each.
std::vector<std::string> not_saved(const Description &about);

} // namespace cryo::inspect
