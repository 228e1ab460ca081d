// SPDX-License-Identifier: Apache-2.0
//
// An image's metadata in memory: every record, decoded and kept. Strings live as long as the Saved.
//
//     for (const auto &[file, pipe] : saved.of<image::Pipe>()) ...
#pragma once

#include "image/reader.hpp"
#include "image/record_store.hpp"

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <type_traits>

namespace cryo::restore {

struct FileOptions;

// Types of which each process has records of its own. All others are of the whole tree: they stand
// in the image of the first process.
template <class R>
inline constexpr bool is_of_a_process = false;
template <class R>
requires std::is_same_v<R, image::Thread> || std::is_same_v<R, image::CallFilter> ||
    std::is_same_v<R, image::ThreadFilters> || std::is_same_v<R, image::Region> ||
    std::is_same_v<R, image::Guard> || std::is_same_v<R, image::AioContext> ||
    std::is_same_v<R, image::Descriptor> || std::is_same_v<R, image::Sigaction> ||
    std::is_same_v<R, image::PendingSignal> || std::is_same_v<R, image::Timer> ||
    std::is_same_v<R, image::Lock> || std::is_same_v<R, image::Rlimit>
inline constexpr bool is_of_a_process<R> = true;

struct Saved {
    image::Process process;
    image::Memory memory;
    image::Agent agent;
    image::Cpu cpu;
    std::string arguments, environment;
    std::vector<uint64_t> auxv;
    image::SavedRecords own;
    std::shared_ptr<image::SavedRecords> of_tree; // null: `own` has these, too

    // What the process does itself for open files that several may have.
    bool is_first = false;          // of the tree
    std::set<uint32_t> cares_for;   // it is the first that has them, or no process has
    std::set<uint32_t> owned;       // open files whose owner (F_SETOWN) is a process that has them
    std::set<uint32_t> only_passed; // open files that no process has
    std::map<uint32_t, const Saved *> members; // by pid, those that have ended, too; when opening

    std::deque<std::vector<uint8_t>> payloads; // what the strings point into

    template <class R>
    auto &of()
    {
        return (is_of_a_process<R> || !of_tree ? own : *of_tree).template of<R>();
    }
    template <class R>
    const auto &of() const
    {
        return (is_of_a_process<R> || !of_tree ? own : *of_tree).template of<R>();
    }
    auto &files() { return of<image::File>(); }
    const auto &files() const { return of<image::File>(); }
    auto &open_files() { return of<image::OpenFile>(); }
    const auto &open_files() const { return of<image::OpenFile>(); }
    auto &descriptors() { return of<image::Descriptor>(); }
    const auto &descriptors() const { return of<image::Descriptor>(); }
    auto &sockets() { return of<image::Socket>(); }
    const auto &sockets() const { return of<image::Socket>(); }
    auto &threads() { return of<image::Thread>(); }
    const auto &threads() const { return of<image::Thread>(); }
    auto &regions() { return of<image::Region>(); }
    const auto &regions() const { return of<image::Region>(); }
};

Result<void> read_saved(image::Image &image, Saved &saved);
// Adds to the files that images know what another image of the tree, written after them, knows. A
// mapped file is identified when the first process that has it mapped is saved: images that were
// complete then have it without a build-id and a hash.
void learn_files(std::map<uint32_t, image::File> &known,
                 const std::map<uint32_t, image::File> &more);
// names_apart.cpp. The files that name UNIX sockets belong to the program, which may still use
// them. A rehearsal has abstract names instead, in a network namespace of its own.
void keep_names_apart(Saved &saved);
// relocate.cpp: every path that the image knows, once, before anything uses one.
void relocate(Saved &saved, const FileOptions &options);

} // namespace cryo::restore
