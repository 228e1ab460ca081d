// SPDX-License-Identifier: Apache-2.0
//
// The services of a restart that a kind of open file uses to open one again. cr_restart itself
// opens what the processes inherit (keep()); what only a process can do is an operation of its plan
// (program()).
//
//     for (const auto &[id, saved] : opening.of<image::Eventfd>())
//         if (!opening.is_opened(id)) ... opening.keep(std::move(made), id);
#pragma once

#include "base/fd.hpp"
#include "base/open_found.hpp"
#include "base/result.hpp"
#include "base/trust.hpp"
#include "image/record_store.hpp"
#include "plan/program.hpp"

#include <cerrno>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::resources {

class Opening
{
  public:
    virtual ~Opening() = default;

    // Records of the whole tree, whichever process this is about.
    template <class R>
    const auto &of() const
    {
        return records().of<R>();
    }
    virtual const image::SavedRecords &records() const = 0;
    // Records of a type that processes have, too: when files are opened, of all processes;
    // afterwards those that this process is to restore.
    virtual const std::vector<image::Timer> &timers() const = 0;
    virtual int64_t cut_realtime() const = 0; // the time at which the program was saved

    // Opened already, or replaced by the user's redirection.
    virtual bool is_opened(uint32_t open_file) const = 0;
    virtual bool is_redirected(uint32_t open_file) const = 0;
    virtual int made(uint32_t open_file) const = 0; // cr_restart's descriptor of it; -1: none
    // All processes inherit the descriptor.
    virtual Result<void> keep(Fd made, uint32_t open_file) = 0;
    // A pipe to a process outside the image becomes cr_restart's own input, output or error output:
    // 0, 1, 2.
    virtual Result<int> keep_standard(const image::OpenFile &open_file) = 0;
    virtual Result<std::string> contents(uint32_t object, uint64_t size) = 0;
    virtual const Trust &trust() const = 0;
    // By its name, if those who could have put it there are trusted; nothing is opened.
    virtual Result<Found> find(const image::File &file) const = 0;
    virtual bool rehearses() const = 0; // nothing outside may be changed, or notice
    virtual void notice(std::string text) = 0;

    // For what a process does itself:
    virtual restore::Program &program() = 0;
    // Whether it does for an open file what only one of its holders has to do.
    virtual bool cares_for(uint32_t open_file) const = 0;
    virtual bool is_first() const = 0; // process of the tree
    // The open file before descriptors have their numbers; afterwards, one of these numbers, -1 if
    // the process has none.
    virtual restore::Operand opened(uint32_t open_file) const = 0;
    virtual int descriptor(uint32_t open_file) const = 0;

    // The record of an open file that another record names.
    Result<const image::OpenFile *> named(uint32_t open_file, std::string_view by) const
    {
        const auto found = of<image::OpenFile>().find(open_file);
        if (found == of<image::OpenFile>().end())
            return Error(EINVAL, std::string(by) + " refers to no open file");
        return &found->second;
    }
    // All open files of a kind.
    std::vector<const image::OpenFile *> of_kind(image::FileKind kind) const
    {
        std::vector<const image::OpenFile *> found;
        for (const auto &[id, open_file] : of<image::OpenFile>()) {
            const auto file = of<image::File>().find(open_file.file);
            if (file != of<image::File>().end() && file->second.kind == kind)
                found.push_back(&open_file);
        }
        return found;
    }
};

} // namespace cryo::resources
