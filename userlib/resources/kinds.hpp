// SPDX-License-Identifier: Apache-2.0
//
// The kinds of open files that a descriptor can refer to. Each has a source of its own for both
// directions: how a checkpoint recognises and saves it, and how a restart opens and completes it.
//
//     const Kind &kind = kind_of(seen);
//     if (kind.save != nullptr)
//         Result<void> saved = kind.save(saving, seen);
//
// A new kind is a source that defines a Kind, and a line in the list of image/file_kinds.hpp.
#pragma once

#include "base/open_found.hpp"
#include "resources/opening.hpp"
#include "resources/saving.hpp"

#include <set>
#include <string_view>
#include <vector>

namespace cryo::resources {

// A restored open file that has not been used yet, as a rehearsal finds it.
struct Restored {
    const image::SavedRecords &saved;
    const image::OpenFile &open_file;
    const std::string &what; // "descriptor 5"
    std::string_view info;   // its fdinfo
};

// How a kind is opened by a name.
struct ByName {
    // Whether the file that has the name now may be the saved one; null: any file may.
    Result<void> (*check)(const image::File &file, const struct stat &now) = nullptr;
    uint32_t flags = 0; // of open(2), in addition
    Devices devices = Devices::refused;
    // Goes to the position; null: there is none.
    Result<void> (*go_to)(int fd, const image::File &file, uint64_t position) = nullptr;
};

struct Kind {
    // The text of the link /proc/PID/fd/N, or its beginning; empty: a path.
    std::string_view link = {};
    // Whether an open file is of this kind; null: if its link is that.
    bool (*is)(const Seen &seen) = nullptr;
    // Each open file is an object of its own, even if the kernel shows the same inode for all.
    bool has_own_file = false;
    // The name in the refusal if only a message holds it, and no process; empty: a restart can send
    // it again.
    std::string_view only_of_processes = {};

    // The reason why an open file of this kind cannot be saved, as the text in front of its link;
    // empty: it can be saved. null: every one can.
    std::string_view (*refused)(const Seen &seen) = nullptr;
    // Before anything is recorded: gives open files the names by which a restart finds them.
    void (*rename)(std::vector<Seen> &all) = nullptr;
    // Saves everything but flags and position. When all open files were read, it reads again those
    // that were not settled, and saves the facts that only all open files of the kind together
    // show.
    Result<void> (*save)(Saving &saving, const Seen &seen) = nullptr;
    Result<void> (*settle)(Saving &saving) = nullptr;
    Result<void> (*save_all)(Saving &saving) = nullptr;

    // Opens all of them, once for the whole tree.
    Result<void> (*open)(Opening &opening) = nullptr;
    // Opens by its name a file that was not opened then; null: not possible.
    const ByName *by_name = nullptr;
    // In each process: before descriptors have their numbers; and last, when nothing can fail any
    // more but other processes. Of what it has no number of, finish() uses cr_restart's descriptors
    // that `spared` names, and closes them.
    Result<void> (*place)(Opening &opening) = nullptr;
    std::set<int> (*spared)(const Opening &opening) = nullptr;
    void (*finish)(Opening &opening) = nullptr;

    // How one differs from what was saved.
    Result<void> (*compare)(const Restored &restored) = nullptr;
};

const Kind &kind(image::FileKind kind);
image::FileKind kind_of(const Seen &seen);

// Does this for all kinds, until one fails.
void rename_all(std::vector<Seen> &all);
Result<void> settle_all(Saving &saving);
Result<void> save_all_together(Saving &saving);
Result<void> open_all(Opening &opening);
Result<void> place_all(Opening &opening);
std::set<int> spared_by_all(const Opening &opening);
void finish_all(Opening &opening);

} // namespace cryo::resources
