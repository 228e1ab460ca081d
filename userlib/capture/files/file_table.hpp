// SPDX-License-Identifier: Apache-2.0
//
// The records of files and of open files. What leads to the same file has the same FILE, be it
// opened, mapped, or a working directory.
//
//     FileTable files(strings, options);
//     files.add_open_file(seen);                 // now seen.open_file is the id of its record
//     files.file_of(seen).flags |= image::kFileUnlinked;
//     const uint32_t library = files.mapped(path, device, inode);
#pragma once

#include "capture/files/file_options.hpp"
#include "capture/files/strings.hpp"
#include "image/records.hpp"
#include "resources/seen.hpp"

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <sys/stat.h>
#include <tuple>
#include <utility>
#include <vector>

namespace cryo::capture {

class FileTable
{
  public:
    using Seen = resources::Seen;

    FileTable(Strings &strings, const FileOptions &options) : strings_(strings), options_(options)
    {}
    FileTable(const FileTable &) = delete;
    FileTable &operator=(const FileTable &) = delete;

    // Makes the record of an open file, and that of its file.
    void add_open_file(Seen &seen);
    // The FILE of something that is mapped. `path` as /proc names it.
    uint32_t mapped(const std::string &path, uint64_t device, uint64_t inode);
    // The FILE of a working directory that was removed, with what /proc/PID/cwd says; 0: it is
    // there.
    uint32_t removed_directory(const std::string &link, const struct stat &status);

    image::File &file(uint32_t id) { return files_[id - 1]; }
    // Of what has an open file.
    image::OpenFile &record_of(const Seen &seen) { return open_files_[seen.open_file - 1]; }
    image::File &file_of(const Seen &seen) { return file(record_of(seen).file); }

    // What will not come back, for the user.
    const std::set<std::string> &left_out() const { return left_out_; }

    // By their ids, from 1.
    std::vector<image::File> &files() { return files_; }
    const std::vector<image::File> &files() const { return files_; }
    const std::vector<image::OpenFile> &open_files() const { return open_files_; }

  private:
    uint32_t find_or_add(const Seen &seen);
    void note_other_name(image::File &known, const Seen &seen);
    uint32_t mapped_elsewhere(const std::string &path, uint64_t device, uint64_t inode);
    uint32_t opened_elsewhere(const std::string &path, uint64_t device, uint64_t inode) const;

    Strings &strings_;
    const FileOptions &options_;
    std::vector<image::File> files_;
    std::map<std::pair<uint64_t, uint64_t>, uint32_t> by_inode_;
    std::map<std::tuple<std::string, uint64_t, uint64_t>, uint32_t> mapped_; // path, device, inode
    std::vector<image::OpenFile> open_files_;
    std::set<std::string> left_out_;
};

} // namespace cryo::capture
