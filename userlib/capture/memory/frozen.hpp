// SPDX-License-Identifier: Apache-2.0
//
// A program's memory as it was in the stop, kept for as long as writing it into an image takes:
// served page by page by a copy of the process or by the stopped process itself (Served), or
// already copied (capture/stage).
#pragma once

#include "capture/memory/pages.hpp"
#include "capture/session/page_source.hpp"

#include <cerrno>
#include <memory>
#include <optional>

namespace cryo::capture {

class Frozen
{
  public:
    Frozen() = default;
    virtual ~Frozen() = default;
    Frozen(const Frozen &) = delete;
    Frozen &operator=(const Frozen &) = delete;

    // As in PageMap, for one whole mapping.
    virtual Result<std::vector<Run>> own_pages(uint64_t start, uint64_t end) const = 0;
    virtual Result<std::vector<Run>> guards(uint64_t start, uint64_t end) const = 0;
    // As in PageSource.
    virtual Result<void> read(uint64_t address, std::span<char> to, bool zeros_behind_file,
                              int protection) = 0;
    // The bytes, with the digests of their pages, if they are in our memory already and need not be
    // read. Empty: they are not.
    struct View {
        image::Bytes bytes;
        std::span<const image::Digest> digests;
    };
    virtual View view(uint64_t, uint64_t) { return {}; }
    // As in PageSource.
    virtual Result<size_t> ask(std::span<const Run> runs, bool, int) { return runs.size(); }
    // As in PageSource, if there is one.
    virtual Result<void> put(std::span<const PageSource::Part>, const PageSource::Target &)
    {
        return Error(EOPNOTSUPP, "these pages are no longer in the program");
    }
    // As in PageSource.
    virtual bool can_scan() const { return false; }
    virtual Result<std::vector<Run>> unwritten(uint64_t, uint64_t)
    {
        return Error(EOPNOTSUPP, "the kernel module is not available");
    }
    virtual Result<void> finish() = 0;
    // The process that has the mappings of that moment; another process if it is a copy.
    virtual pid_t pid() const = 0;
};

class Served final : public Frozen
{
  public:
    static Result<std::unique_ptr<Frozen>> open(PageSource source);

    Result<std::vector<Run>> own_pages(uint64_t start, uint64_t end) const override;
    Result<std::vector<Run>> guards(uint64_t start, uint64_t end) const override
    {
        return map_.guards(start, end);
    }
    Result<void> read(uint64_t address, std::span<char> to, bool zeros_behind_file,
                      int protection) override
    {
        return source_.read(RemoteAddress(address), to, zeros_behind_file, protection);
    }
    Result<size_t> ask(std::span<const Run> runs, bool zeros_behind_file, int protection) override
    {
        return source_.ask(runs, zeros_behind_file, protection);
    }
    Result<void> put(std::span<const PageSource::Part> parts, const PageSource::Target &to) override
    {
        return source_.put(parts, to);
    }
    bool can_scan() const override { return source_.can_scan(); }
    Result<std::vector<Run>> unwritten(uint64_t start, uint64_t end) override
    {
        return source_.unwritten(RemoteAddress(start), RemoteAddress(end));
    }
    Result<void> finish() override { return source_.finish(); }
    pid_t pid() const override { return source_.pid(); }

  private:
    Served(PageSource source, PageMap map) : source_(std::move(source)), map_(std::move(map)) {}

    bool is_untouched(uint64_t start, uint64_t end) const;

    PageSource source_;
    PageMap map_;
    mutable std::optional<std::vector<Run>> untouched_; // mappings, once one was asked for
};

} // namespace cryo::capture
