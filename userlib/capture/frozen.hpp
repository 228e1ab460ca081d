// SPDX-License-Identifier: Apache-2.0
//
// A program's memory as it was in the stop, for as long as it takes to write it into an image:
// served page by page, by a copy of the process or by the one that stands still (Served), or copied
// already (capture/stage).
#pragma once

#include "capture/pages.hpp"
#include "capture/session.hpp"

#include <cerrno>
#include <memory>

namespace cryo::capture {

class Frozen
{
  public:
    Frozen() = default;
    virtual ~Frozen() = default;
    Frozen(const Frozen &) = delete;
    Frozen &operator=(const Frozen &) = delete;

    // As PageMap's, of one whole mapping.
    virtual Result<std::vector<Run>> own_pages(uint64_t start, uint64_t end) const = 0;
    virtual Result<std::vector<Run>> guards(uint64_t start, uint64_t end) const = 0;
    // As PageSource's.
    virtual Result<void> read(uint64_t address, std::span<char> to, bool zeros_behind_file,
                              int protection) = 0;
    // The same where it lies in our memory already, with the digests of its pages: nothing is to be
    // read then. Empty: it does not.
    struct View {
        image::Bytes bytes;
        std::span<const image::Digest> digests;
    };
    virtual View view(uint64_t, uint64_t) { return {}; }
    // As PageSource's.
    virtual Result<size_t> ask(std::span<const Run> runs, bool, int) { return runs.size(); }
    // As PageSource's, where there is one.
    virtual Result<void> put(std::span<const PageSource::Part>, const PageSource::Target &)
    {
        return Error(EOPNOTSUPP, "these pages are no longer in the program");
    }
    // As PageSource's.
    virtual bool can_scan() const { return false; }
    virtual Result<std::vector<Run>> unwritten(uint64_t, uint64_t)
    {
        return Error(EOPNOTSUPP, "there is no module that could be asked");
    }
    virtual Result<void> finish() = 0;
    // The process that has the mappings of that moment, which is another one if it is a copy.
    virtual pid_t pid() const = 0;
};

class Served final : public Frozen
{
  public:
    static Result<std::unique_ptr<Frozen>> open(PageSource source);

    Result<std::vector<Run>> own_pages(uint64_t start, uint64_t end) const override
    {
        return map_.own_pages(start, end);
    }
    Result<std::vector<Run>> guards(uint64_t start, uint64_t end) const override
    {
        return map_.guards(start, end);
    }
    Result<void> read(uint64_t address, std::span<char> to, bool zeros_behind_file,
                      int protection) override
    {
        return source_.read(address, to, zeros_behind_file, protection);
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
        return source_.unwritten(start, end);
    }
    Result<void> finish() override { return source_.finish(); }
    pid_t pid() const override { return source_.pid(); }

  private:
    Served(PageSource source, PageMap map) : source_(std::move(source)), map_(std::move(map)) {}

    PageSource source_;
    PageMap map_;
};

} // namespace cryo::capture
