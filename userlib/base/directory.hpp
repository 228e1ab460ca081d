// SPDX-License-Identifier: Apache-2.0
//
// A directory that is opened once and then used by its descriptor: later changes to its path have
// no effect, and no symbolic link in it is followed.
//
//     Result<Directory> top = Directory::open("/scratch/context.ckpt");
//     Result<std::string> text = top->read("meta");        // only ENOENT means: not there
//     Result<void> done = top->write("meta", "contents");  // written and synced, or unchanged
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
    // The path's last component must not be a link; earlier ones may be.
    static Result<Directory> open(const std::string &path);
    // Creates it, for the caller alone, if it does not exist.
    static Result<Directory> open_or_make(const std::string &path);

    // Opens again a directory that is open as `fd`. `path` is for messages.
    static Result<Directory> of(int fd, const std::string &path);

    Result<Directory> enter(const std::string &name) const;
    Result<Directory> make(const std::string &name) const; // EEXIST: it exists

    const std::string &path() const { return path_; }
    std::string path(const std::string &name) const { return path_ + "/" + name; }
    int fd() const { return fd_.get(); }

    // Empty: it does not exist. A link is not followed.
    Result<std::optional<struct stat>> look(const std::string &name) const;
    // For a regular file. EFBIG: it is larger than `most`.
    Result<std::string> read(const std::string &name, size_t most = size_t(64) << 20) const;
    // Written under another name first (.NAME.tmp), so that either the old or the new file exists.
    Result<void> write(const std::string &name, const std::string &contents) const;
    // Excludes "." and "..".
    Result<std::vector<std::string>> names() const;
    // A file, or an empty directory. No error if it does not exist.
    Result<void> remove(const std::string &name) const;
    Result<void> rename(const std::string &from, const std::string &to) const; // EEXIST: taken
    Result<void> sync() const;
    // Removes the directory's contents. What cannot be removed stays.
    void clear() const;

  private:
    Directory(Fd fd, std::string path) : fd_(std::move(fd)), path_(std::move(path)) {}
    Result<Fd> open_temporary(const std::string &name) const;

    Fd fd_;
    std::string path_; // for messages, and for interfaces that only take a path
};

// A path's parent and its last component.
std::pair<std::string, std::string> split_path(const std::string &path);

} // namespace cryo
