// SPDX-License-Identifier: Apache-2.0
//
// Where an image goes: a file that appears under its name only when it is complete, or a stream.
//
//     Result<std::unique_ptr<Sink>> sink = FileSink::create("context.412", {.existing =
//     Existing::replace});
//     ... (*sink)->write(...) ...
//     (*sink)->commit();       // durable, and visible under its name
//
// A sink that is destroyed without commit() leaves nothing behind.
#pragma once

#include <memory>
#include <string>
#include <sys/uio.h>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/format.hpp"

namespace cryo::image {

class Sink
{
  public:
    virtual ~Sink() = default;

    // Writes all of it, one piece after the other. The image writer passes pieces whose sizes are
    // multiples of the page size and whose addresses are page-aligned. The list is used up.
    virtual Result<void> write(std::span<iovec> pieces) = 0;

    // Makes what was written durable and visible.
    virtual Result<void> commit() = 0;
};

enum class Existing {
    refuse,  // an existing file is an error (--noclobber)
    replace, // atomically (--atomic, --clobber)
    backup,  // the same, and the old one stays under another name (--backup)
};

// Under which name an old file or directory stays: a given one, or the next free of NAME.~1~,
// NAME.~2~, … of which the newest `keep` are kept (0: all).
struct Backup {
    std::string name = {};
    unsigned keep = 0;
};

struct FileOptions {
    Existing existing = Existing::refuse;
    Backup backup = {};
    bool direct = true; // bypass the page cache where the file system allows
    bool sync = true;   // fsync file and directory (--sync)
    mode_t mode = 0400; // of the committed file; before, it is 0600
};

class FileSink : public Sink
{
  public:
    static Result<std::unique_ptr<Sink>> create(const std::string &path,
                                                const FileOptions &options = {});
    ~FileSink() override;
    FileSink(const FileSink &) = delete;
    FileSink &operator=(const FileSink &) = delete;

    Result<void> write(std::span<iovec> pieces) override;
    Result<void> commit() override;

  private:
    FileSink(std::string path, const FileOptions &options);
    Result<void> open_temporary();
    Result<void> publish();
    Error failure(std::string_view doing, int err) const;

    std::string path_;
    std::string name_;      // last component of path_
    std::string temporary_; // name in the directory; empty while the file has none
    FileOptions options_;
    Fd directory_;
    Fd file_;
};

// A pipe, a socket, or a file that somebody else opened. Nothing can be taken back: a reader sees
// by the missing footer that the image was not committed. A reader that went away is EPIPE: the
// caller ignores SIGPIPE.
class StreamSink : public Sink
{
  public:
    // `sync`: commit() waits until it is on the disk, where there is one.
    StreamSink(Fd fd, std::string name, bool sync = false)
        : fd_(std::move(fd)), name_(std::move(name)), sync_(sync)
    {}

    Result<void> write(std::span<iovec> pieces) override;
    Result<void> commit() override;

  private:
    Fd fd_;
    std::string name_;
    bool sync_;
};

// Links what has the name `name` in the directory under the name of a backup as well.
Result<void> link_backup(int directory, const std::string &name, const Backup &backup);
// The next free name of a numbered backup, and removes what is too old.
Result<std::string> next_backup(int directory, const std::string &name, unsigned keep);

} // namespace cryo::image
