// SPDX-License-Identifier: Apache-2.0
//
// The two contexts of the kinds, for the test's own descriptors: no checkpoint, no restart.
//
//     OwnSaving saving;
//     saving.add(Fd(eventfd(3, EFD_CLOEXEC)));
//     ASSERT_TRUE(saving.save_all());
//     OwnOpening opening(saving); // while `saving` is there: its texts are in the records
//     ASSERT_TRUE(open_all(opening));
//     ... opening.fd(1) ...
#pragma once

#include "own_files.hpp"

#include <cerrno>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace cryo::resources {

// A checkpoint of a process with these open files, which is the test.
class OwnSaving : public Saving
{
  public:
    void add(Fd fd)
    {
        seen_.push_back(see(std::move(fd)));
        Seen &seen = seen_.back();
        image::OpenFile open_file;
        open_file.id = seen.open_file = static_cast<uint32_t>(seen_.size());
        open_file.file = file_of(seen);
        open_file.flags = seen.flags;
        records_.add(open_file);
    }
    // The program has ended.
    void close_all()
    {
        for (Seen &seen : seen_)
            seen.shared.reset();
    }
    Result<void> save_all()
    {
        for (const Seen &seen : seen_) {
            const Kind &how = kind(seen.kind);
            if (how.save == nullptr)
                continue;
            if (Result<void> done = how.save(*this, seen); !done)
                return done;
        }
        if (Result<void> done = settle_all(*this); !done)
            return done;
        return save_all_together(*this);
    }
    const std::vector<std::string> &refused() const { return refused_; }
    const std::vector<std::string> &notices() const { return notices_; }
    const std::map<uint32_t, std::string> &objects() const { return objects_; }

    image::FoundRecords &records() override { return records_; }
    std::string_view keep(std::string text) override { return texts_.emplace_back(text); }
    image::List<uint32_t> keep_list(const std::vector<uint32_t> &list) override
    {
        return image::List<uint32_t>::of(lists_.emplace_back(list));
    }
    image::List<uint64_t> keep_list(const std::vector<uint64_t> &list) override
    {
        return image::List<uint64_t>::of(long_lists_.emplace_back(list));
    }
    uint32_t copied(image::ObjectKind, std::string bytes) override
    {
        if (bytes.empty())
            return 0;
        const auto object = static_cast<uint32_t>(objects_.size() + 1);
        objects_[object] = std::move(bytes);
        return object;
    }
    void refuse(const Seen &, std::string_view what, std::string_view,
                capture::Passing = capture::Passing::when_gone) override
    {
        refused_.emplace_back(what);
    }
    void notice(std::string text) override { notices_.push_back(std::move(text)); }
    const std::vector<Seen> &seen() const override { return seen_; }
    const Seen *at(const Seen &, int fd) const override
    {
        for (const Seen &seen : seen_) {
            if (seen.fd == fd)
                return &seen;
        }
        return nullptr;
    }
    std::set<const Seen *> standard() const override
    {
        std::set<const Seen *> found;
        for (const Seen &seen : seen_) {
            if (standard_.contains(seen.fd))
                found.insert(&seen);
        }
        return found;
    }
    const image::File &file(const Seen &seen) const override
    {
        const image::OpenFile &open_file = records_.of<image::OpenFile>()[seen.open_file - 1];
        return records_.of<image::File>()[open_file.file - 1];
    }
    pid_t process(const Seen &) const override { return getpid(); }
    const capture::Proc &holder(const Seen &) const override { return own_; }
    Result<size_t> add(Fd fd, const Seen &socket) override
    {
        const int passed_in = socket.fd;
        add(std::move(fd));
        seen_.back().passed_in = passed_in;
        return seen_.size() - 1;
    }
    bool is_inherited(const Seen &) const override { return false; }
    std::set<pid_t> members(bool) const override { return {getpid()}; }
    Result<std::string> info_now(const Seen &seen) const override
    {
        return capture::Proc(getpid()).read("fdinfo/" + std::to_string(seen.fd));
    }
    std::string offer(const Seen &, const std::string &) override { return {}; }
    PipeChoice pipe_choice() const override { return pipe_choice_; }
    Result<std::vector<WatchedPath>> watched(const Seen &) override { return watched_; }
    Result<std::string> messages(const Seen &) override { return Error(ENOSYS, "no agent"); }

    Result<TerminalContents> terminal(const Seen &) override
    {
        if (before_terminal_)
            before_terminal_();
        return terminal_;
    }

    std::vector<WatchedPath> watched_;
    TerminalContents terminal_;
    std::function<void()> before_terminal_; // while the queues are read
    PipeChoice pipe_choice_;
    std::set<int> standard_; // its standard descriptors have these numbers

  private:
    // Descriptors of one inode have one.
    uint32_t file_of(const Seen &seen)
    {
        for (const image::File &known : records_.of<image::File>()) {
            if (!kind(seen.kind).has_own_file && known.kind == seen.kind &&
                known.device == seen.status.st_dev && known.inode == seen.status.st_ino)
                return known.id;
        }
        image::File file;
        file.id = static_cast<uint32_t>(records_.of<image::File>().size() + 1);
        file.kind = seen.kind;
        file.path = keep(seen.link);
        file.device = seen.status.st_dev;
        file.inode = seen.status.st_ino;
        file.mode = seen.status.st_mode;
        file.uid = seen.status.st_uid;
        file.gid = seen.status.st_gid;
        records_.add(file);
        return file.id;
    }

    std::vector<Seen> seen_;
    image::FoundRecords records_;
    std::deque<std::string> texts_;
    std::deque<std::vector<uint32_t>> lists_;
    std::deque<std::vector<uint64_t>> long_lists_;
    const capture::Proc own_{getpid()};
    std::map<uint32_t, std::string> objects_;
    std::vector<std::string> refused_, notices_;
};

// A restart of it that keeps what it opens.
class OwnOpening : public Opening
{
  public:
    explicit OwnOpening(OwnSaving &saving) : objects_(saving.objects())
    {
        saving.records().each([&](const auto &record) { records_.add(record); });
    }
    // Of records without contents.
    explicit OwnOpening(const image::FoundRecords &found)
    {
        found.each([&](const auto &record) { records_.add(record); });
    }
    int fd(uint32_t open_file) const { return made_.at(open_file).get(); }
    const std::vector<std::string> &notices() const { return notices_; }
    // Open files that lead outside, for which cr_restart's own stand.
    const std::vector<uint32_t> &standard() const { return standard_; }

    const image::SavedRecords &records() const override { return records_; }
    const std::vector<image::Timer> &timers() const override { return of<image::Timer>(); }
    int64_t cut_realtime() const override { return 0; }
    bool is_opened(uint32_t open_file) const override { return made_.contains(open_file); }
    int made(uint32_t open_file) const override
    {
        return made_.contains(open_file) ? fd(open_file) : -1;
    }
    bool is_redirected(uint32_t) const override { return false; }
    Result<void> keep(Fd made, uint32_t open_file) override
    {
        made_[open_file] = std::move(made);
        return {};
    }
    Result<int> keep_standard(const image::OpenFile &open_file) override
    {
        standard_.push_back(open_file.id);
        return STDOUT_FILENO;
    }
    Result<std::string> contents(uint32_t object, uint64_t size) override
    {
        const auto found = objects_.find(object);
        const std::string bytes = found != objects_.end() ? found->second : std::string();
        EXPECT_EQ(bytes.size(), size);
        return bytes;
    }
    const Trust &trust() const override { return trust_; }
    Result<Found> find(const image::File &file) const override
    {
        return look_at(std::string(file.path), Links::not_at_end);
    }
    bool rehearses() const override { return false; }
    void notice(std::string text) override { notices_.push_back(std::move(text)); }
    restore::Program &program() override { return program_; }
    bool cares_for(uint32_t) const override { return true; }
    bool is_first() const override { return true; }
    restore::Operand opened(uint32_t open_file) const override
    {
        return restore::value(fd(open_file));
    }
    int descriptor(uint32_t open_file) const override
    {
        return open_file != in_message_ ? fd(open_file) : -1;
    }

    uint32_t in_message_ = 0; // an open file that the process has not

  private:
    image::SavedRecords records_;
    std::map<uint32_t, std::string> objects_;
    std::map<uint32_t, Fd> made_;
    std::vector<std::string> notices_;
    std::vector<uint32_t> standard_;
    Trust trust_;
    restore::Program program_;
};

} // namespace cryo::resources
