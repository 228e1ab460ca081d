// SPDX-License-Identifier: Apache-2.0
//
// The descriptor tables of stopped processes at three levels: descriptors, open files, files, and
// the files' contents. What cannot be saved becomes a problem, by name.
//
//     Files files(strings, objects, options);
//     files.read_descriptors(holders, zombies); // while all of them are stopped
//     files.save_contents(writer);              // likewise: nothing else freezes them
//     files.write_records(writer, 0, used);    // of the first process
//
// The processes of a tree have one table of files and open files, since they may share them. The
// image of the first process has all of it and all contents; the other images have only what they
// refer to. What open files of each kind hold is saved by resources/.
#pragma once

#include "base/fd.hpp"
#include "capture/file_options.hpp"
#include "capture/objects.hpp"
#include "capture/session_peer.hpp"
#include "image/record_store.hpp"
#include "image/records.hpp"
#include "image/writer.hpp"
#include "look/problems.hpp"
#include "look/proc.hpp"
#include "resources/kinds.hpp"

#include <deque>
#include <functional>
#include <map>
#include <set>
#include <sys/stat.h>
#include <tuple>
#include <unistd.h>

namespace cryo::resources {

class Sockets;

} // namespace cryo::resources

namespace cryo::capture {

class AgentSession;

// Keeps the strings that records refer to.
class Strings
{
  public:
    std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }
    template <class T>
    image::List<T> keep_list(const std::vector<T> &list)
    {
        return image::List<T>::of(lists<T>().emplace_back(list));
    }

  private:
    template <class T>
    auto &lists()
    {
        if constexpr (sizeof(T) == 4)
            return lists32_;
        else
            return lists64_;
    }

    std::deque<std::string> kept_;
    std::deque<std::vector<uint32_t>> lists32_;
    std::deque<std::vector<uint64_t>> lists64_;
};

// A process whose descriptors are read, except those in `ours`.
struct Holder {
    const Proc &proc;
    Problems &problems;
    AgentSession &session;
    std::set<int> ours;
};

class Files : private resources::Saving
{
  public:
    Files(Strings &strings, Objects &objects, const FileOptions &options)
        : strings_(strings), objects_(objects), options_(options)
    {}

    // `zombies`: the members that have ended.
    Result<void> read_descriptors(std::vector<Holder> holders, std::set<pid_t> zombies);

    // The FILE of something that is mapped. `path` as /proc names it.
    uint32_t mapped(const std::string &path, uint64_t device, uint64_t inode);
    // The FILE of a working directory that was removed, with what /proc/PID/cwd says; 0: it is
    // there.
    uint32_t removed_directory(const std::string &link, const struct stat &status);

    // Marks the file's contents to be saved; the file is found by its name.
    void save_by_name(uint32_t file);

    // Saves the contents that fork does not freeze: only while the program is stopped.
    Result<void> save_contents(image::ImageWriter &writer, const std::function<void()> &at_work);
    bool has_contents() const { return !contents_.empty(); }
    // Saves what was copied when it was found: at any time.
    Result<void> save_copied(image::ImageWriter &writer);
    // files_records.cpp. For the image of the process `holder`; `mapped`: FILEs that it refers to
    // in addition.
    Result<void> write_records(image::ImageWriter &writer, size_t holder,
                               const std::set<uint32_t> &mapped) const;

    std::vector<image::File> &files() { return files_; }
    // Notices about this image for the user.
    const std::vector<std::string> &notices() const { return notices_; }

  private:
    using Seen = resources::Seen;

    // What kinds of open files use (files_saving.cpp).
    image::FoundRecords &records() override { return records_; }
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
    void notice(std::string text) override { notices_.push_back(std::move(text)); }
    const std::vector<Seen> &seen() const override { return seen_; }
    const Seen *at(const Seen &beside, int fd) const override;
    std::set<const Seen *> standard() const override;
    const image::File &file(const Seen &seen) const override;
    pid_t process(const Seen &seen) const override { return proc_of(seen).pid(); }
    const Proc &holder(const Seen &seen) const override { return holders_[seen.holder].proc; }
    Result<size_t> add(Fd fd, const Seen &socket) override; // files_passed.cpp
    std::set<uint64_t> inherited_sockets() const override;  // files_inherited.cpp
    std::set<pid_t> members(bool with_zombies) const override;
    Result<std::string> info_now(const Seen &seen) const override;
    std::string offer(const Seen &seen, const std::string &link) override;
    resources::PipeChoice pipe_choice() const override
    {
        return {.refuse = options_.refuse_pipes, .close_fifos = options_.close_fifos};
    }
    Result<std::vector<resources::WatchedPath>> watched(const Seen &seen) override;
    Result<std::string> messages(const Seen &queue) override;
    Result<resources::TerminalContents> terminal(const Seen &master) override;

    // files.cpp
    static Result<Seen> look(const Proc &proc, int fd);
    static bool is_as_seen(const Seen &seen);
    Result<void> share(std::vector<Seen> &all) const;
    Result<void> group(const std::vector<Seen> &all);
    std::string_view refusal(const Seen &seen, const resources::Sockets &sockets) const;
    uint32_t file_of(const Seen &seen);
    void add_open_file(Seen &seen);
    image::OpenFile &record_of(const Seen &seen) { return open_files_[seen.open_file - 1]; }
    image::File &file_record(const Seen &seen) { return files_[record_of(seen).file - 1]; }

    // files_process.cpp
    void refuse_files_about_processes();
    // files_access.cpp: whose it is, and who may open it again.
    uid_t owner_of(const Seen &seen) const;
    void note_access(const Seen &seen);
    // files_contents.cpp
    Result<void> note_contents(const Seen &seen);
    std::string other_name(const Seen &seen) const;
    uint32_t mapped_elsewhere(const std::string &path, uint64_t device, uint64_t inode);
    uint32_t opened_elsewhere(const std::string &path, uint64_t device, uint64_t inode) const;
    // files_passed.cpp
    static std::string_view passed_refusal(const Seen &seen, const resources::Sockets &sockets);

    const Proc &proc_of(const Seen &seen) const
    {
        return seen.passed_in < 0 ? holders_[seen.holder].proc : own_;
    }
    AgentSession &session_of(const Seen &seen) const { return holders_[seen.holder].session; }

    Strings &strings_;
    Objects &objects_;
    const FileOptions &options_;

    std::vector<Holder> holders_; // valid during read_descriptors()
    std::set<pid_t> zombies_;     // likewise
    std::vector<Seen> seen_;      // one per open file, during read_descriptors()
    std::map<std::pair<size_t, int>, uint32_t> descriptor_; // holder, fd → index in seen_
    SessionsPeers session_peers_;                           // during read_descriptors()
    const Proc own_{getpid()};                              // this process

    std::vector<image::File> files_;
    std::map<std::pair<uint64_t, uint64_t>, uint32_t> by_inode_;
    std::map<std::tuple<std::string, uint64_t, uint64_t>, uint32_t> mapped_; // path, device, inode
    std::vector<image::OpenFile> open_files_;
    std::vector<std::vector<image::Descriptor>> descriptors_; // for each holder
    image::FoundRecords records_;                             // all others
    std::vector<CopiedContents> copied_;
    struct Content {
        uint32_t file;
        std::string path; // of a descriptor of the program, in /proc
        Fd kept = {};     // ours if no process has one, until the contents are saved
    };
    std::vector<Content> contents_;
    std::vector<std::string> notices_;
};

} // namespace cryo::capture
