// SPDX-License-Identifier: Apache-2.0
//
// What there is to say about an image in one line each, for the summary and for a page.
//
//     Facts facts = facts_of(about);
//     for (const Fact &f : facts.about)
//         print("{} {}", f.label, f.text);
#pragma once

#include "rows.hpp"

namespace cryo::inspect {

struct Fact {
    std::string label = {}; // empty: more about the one before
    std::string text = {};  // printable
};

struct Facts {
    std::vector<Fact> about = {};   // the process or file, the time and place
    std::vector<Fact> storage = {}; // how much the image holds, and how it is packed
    std::vector<std::string> notes = {};
};

Facts facts_of(const Description &about);

using KindSum = std::pair<image::RegionKind, MappingSum>;
std::vector<KindSum> memory_by_kind(const Description &about);

// An image of cr_delta, which holds a version of a file.
inline bool is_file(const Description &about)
{
    return about.header.role == image::Role::file;
}

// Another checkpointer, or the program itself, has saved the process; memory and descriptors are
// in attached files.
inline bool is_foreign(const Description &about)
{
    return !about.all<image::Foreign>().empty();
}

} // namespace cryo::inspect
