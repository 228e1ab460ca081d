// SPDX-License-Identifier: Apache-2.0
//
// What the kinds of open files (resources/) ask for while they save one: answers from the look at
// the stopped processes, and places where what they find is kept.
//
//     Findings findings;
//     SavingContext saving(look, files, findings, strings, objects, options);
//     Result<void> done = resources::kind(seen.kind).save(saving, seen);
//     ... findings are written later, also when `look` has ended ...
#pragma once

#include "base/fd.hpp"
#include "capture/files/descriptor_look.hpp"
#include "capture/files/file_options.hpp"
#include "capture/files/file_table.hpp"
#include "capture/files/strings.hpp"
#include "capture/memory/objects.hpp"
#include "capture/session/session_peer.hpp"
#include "image/record_store.hpp"
#include "look/problems.hpp"
#include "look/proc.hpp"
#include "resources/saving.hpp"

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <utility>
#include <vector>

namespace cryo::capture {

// What the kinds have found.
struct Findings {
    image::FoundRecords records;
    std::vector<CopiedContents> copied;
    std::vector<std::string> notices; // about the image, for the user
};

class SavingContext final : public resources::Saving
{
  public:
    using Seen = resources::Seen;

    SavingContext(DescriptorLook &look, FileTable &files, Findings &findings, Strings &strings,
                  Objects &objects, const FileOptions &options)
        : look_(look), files_(files), findings_(findings), strings_(strings), objects_(objects),
          options_(options)
    {}
    SavingContext(const SavingContext &) = delete;
    SavingContext &operator=(const SavingContext &) = delete;

    image::FoundRecords &records() override { return findings_.records; }
    std::string_view keep(std::string text) override { return strings_.keep(std::move(text)); }
    image::List<uint32_t> keep_list(const std::vector<uint32_t> &list) override
    {
        return strings_.keep_list(list);
    }
    image::List<uint64_t> keep_list(const std::vector<uint64_t> &list) override
    {
        return strings_.keep_list(list);
    }
    uint32_t copied(image::ObjectKind kind, std::string bytes) override;
    void refuse(const Seen &seen, std::string_view what, std::string_view way_out,
                Passing passing = Passing::when_gone) override;
    void notice(std::string text) override { findings_.notices.push_back(std::move(text)); }

    const std::vector<Seen> &seen() const override { return look_.open_files(); }
    const Seen *at(const Seen &beside, int fd) const override
    {
        return look_.at(beside.holder, fd);
    }
    std::set<const Seen *> standard() const override { return look_.standard(); }
    const image::File &file(const Seen &seen) const override { return files_.file_of(seen); }
    pid_t process(const Seen &seen) const override { return look_.proc_of(seen).pid(); }
    const Proc &holder(const Seen &seen) const override { return look_.holder_of(seen).proc; }
    Result<size_t> add(Fd fd, const Seen &socket) override;
    bool is_inherited(const Seen &seen) const override;
    std::set<pid_t> members(bool with_zombies) const override
    {
        return look_.members(with_zombies);
    }
    Result<std::string> info_now(const Seen &seen) const override;
    std::string offer(const Seen &seen, const std::string &link) override;
    resources::PipeChoice pipe_choice() const override
    {
        return {.refuse = options_.refuse_pipes, .close_fifos = options_.close_fifos};
    }

    Result<std::vector<resources::WatchedPath>> watched(const Seen &seen) override;
    Result<std::string> messages(const Seen &queue) override;
    Result<resources::TerminalContents> terminal(const Seen &master) override;

  private:
    DescriptorLook &look_;
    FileTable &files_;
    Findings &findings_;
    Strings &strings_;
    Objects &objects_;
    const FileOptions &options_;
    SessionsPeers session_peers_;
    mutable std::optional<std::set<std::string>> inherited_; // once it is asked for
};

} // namespace cryo::capture
