// SPDX-License-Identifier: Apache-2.0
//
// A directory that is opened once and used by its descriptor: whoever may change the way to it
// changes nothing for us, and no link in it is followed.
//
//     Result<Directory> top = Directory::open("/scratch/context.ckpt");
//     Result<std::string> text = top->read("meta");        // ENOENT alone: there is none
//     Result<void> done = top->write("meta", "contents");  // whole and on the disk, or not there
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"

#include <optional>
#include <string>
#include <sys/stat.h>
#include <vector>

namespace cryo {

class Directory
{
  public:
    // The path's last part is no link; the way to it may have some.
    static Result<Directory> open(const std::string &path);
    // Made, for the caller alone, if it is not there.
    static Result<Directory> open_or_make(const std::string &path);

    // The same one again, which is open already. `path` is for messages.
    static Result<Directory> of(int fd, const std::string &path);

    Result<Directory> enter(const std::string &name) const;
    Result<Directory> make(const std::string &name) const; // EEXIST: it is there

    const std::string &path() const { return path_; }
    std::string path(const std::string &name) const { return path_ + "/" + name; }
    int fd() const { return fd_.get(); }

    // Nothing: there is none. Of a link, itself.
    Result<std::optional<struct stat>> look(const std::string &name) const;
    // Of a regular file. EFBIG: it has more than `most`.
    Result<std::string> read(const std::string &name, size_t most = size_t(64) << 20) const;
    // Under another name first (.NAME.tmp), so that there is the old one or the new one.
    Result<void> write(const std::string &name, const std::string &contents) const;
    // Without "." and "..".
    Result<std::vector<std::string>> names() const;
    // A file, or a directory with nothing in it. It may be gone already.
    Result<void> remove(const std::string &name) const;
    Result<void> rename(const std::string &from, const std::string &to) const; // EEXIST: taken
    Result<void> sync() const;
    // All that is in it. What cannot be removed stays.
    void clear() const;

  private:
    Directory(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
    Result<Fd> open_temporary(const std::string &name) const;

    Fd fd_;
    std::string path_; // for messages, and for those who can take a name only
};

// The last part of a path, and what is before it.
std::pair<std::string, std::string> split_path(const std::string &path);

} // namespace cryo
