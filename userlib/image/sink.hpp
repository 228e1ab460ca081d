// SPDX-License-Identifier: Apache-2.0
//
// Where an image goes: a file that appears under its name only when it is complete, or a stream.
//
//     Result<std::unique_ptr<Sink>> sink =
//         FileSink::create("context.412", {.existing = Existing::replace});
//     ... (*sink)->write(...) ...
//     (*sink)->commit();       // durable, and visible under its name
//
// A sink that is destroyed without commit() leaves nothing behind.
#pragma once

#include <memory>
#include <string>
#include <sys/uio.h>
#include <vector>

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/checksum.hpp"
#include "image/format.hpp"
#include "image/publication.hpp"

namespace cryo::image {

// A sink's file that can also be read and written at any offset, so that pages can be put into it
// without passing through this process.
class PlaceableFile
{
  public:
    virtual ~PlaceableFile() = default;
    virtual int fd() const = 0;
    virtual const std::string &name() const = 0; // for messages
    // Called before anything else: from then on the page cache is used.
    virtual void begin() = 0;
    virtual Result<void> read_at(uint64_t offset, MutableBytes to) const = 0;
    virtual Result<void> write_at(uint64_t offset, Bytes bytes) const = 0;
    virtual Result<void> go_to(uint64_t offset) const = 0; // where the next write() goes
    // The fewest zero bytes that are worth a hole.
    virtual uint64_t least_hole() const = 0;
};

class Sink
{
  public:
    virtual ~Sink() = default;

    // Writes all of it, one piece after the other. The image writer passes pieces whose sizes are
    // multiples of the page size and whose addresses are page-aligned. The list is modified.
    virtual Result<void> write(std::span<iovec> pieces) = 0;

    // Makes what was written durable and visible.
    virtual Result<void> commit() = 0;

    // Whole pages that were written can be written once more, by rewrite(); `offset` counts from
    // the first byte of all. Not after anything was placed.
    virtual bool can_rewrite() const { return false; }
    virtual Result<void> rewrite(uint64_t offset, Bytes pages);

    // Null: all data must come through write(), in order.
    virtual PlaceableFile *placeable() { return nullptr; }
};

enum class Existing {
    refuse,  // an existing file is an error (--noclobber)
    replace, // atomically (--atomic, --clobber)
    backup,  // as replace, and the old one stays under another name (--backup)
};

// Under which name an old file or directory stays: a given one, or the next free of NAME.~1~,
// NAME.~2~, … of which the newest `keep` are kept (0: all), and those that an image needs.
struct Backup {
    std::string name = {};
    unsigned keep = 0;
    std::vector<Digest> needed = {}; // the images that the new one needs: no backup replaces them
};

struct FileOptions {
    Existing existing = Existing::refuse;
    Backup backup = {};
    bool direct = true;      // bypass the page cache where the file system allows
    bool sync = true;        // fsync file and directory (--sync)
    bool keep_write = false; // its owner may also write it, if so with the file that it replaces
    mode_t mode = 0400;      // of the committed file otherwise; before, it is 0600
    // About how many bytes will be placed in it (PlaceableFile), through the page cache; 0: none.
    // A memory file system reserves them at once, so that they are available when they are
    // needed.
    uint64_t placed = 0;
    Publication *publication = nullptr; // null if the file never has to be taken back
};

class FileSink : public Sink, private PlaceableFile
{
  public:
    static Result<std::unique_ptr<Sink>> create(const std::string &path,
                                                const FileOptions &options = {});
    ~FileSink() override;
    FileSink(const FileSink &) = delete;
    FileSink &operator=(const FileSink &) = delete;

    Result<void> write(std::span<iovec> pieces) override;
    Result<void> commit() override;
    bool can_rewrite() const override { return true; }
    Result<void> rewrite(uint64_t offset, Bytes pages) override { return write_at(offset, pages); }
    PlaceableFile *placeable() override { return may_place_ ? this : nullptr; }

  private:
    FileSink(std::string path, const FileOptions &options);
    int fd() const override { return file_.get(); }
    const std::string &name() const override { return path_; }
    void begin() override;
    Result<void> read_at(uint64_t offset, MutableBytes to) const override;
    Result<void> write_at(uint64_t offset, Bytes bytes) const override;
    Result<void> go_to(uint64_t offset) const override;
    uint64_t least_hole() const override;
    Result<void> open_temporary();
    mode_t final_mode() const;
    void prepare_to_place();
    void give_back_rest() const;
    Result<void> publish();
    Result<void> name_aside();
    Result<void> publish_for_now();
    Error failure(std::string_view doing, int err) const;

    std::string path_;
    std::string name_;      // last component of path_
    std::string temporary_; // name in the directory; empty while the file has none
    FileOptions options_;
    Fd directory_;
    Fd file_;
    bool may_place_ = false;
    uint64_t taken_ = 0; // bytes reserved from its beginning, if it is in memory
};

// A pipe, a socket, or a file that the caller opened. Nothing can be taken back: a reader sees
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

// A hidden name for a file or a directory that belongs to `name`.
std::string random_name(const std::string &name);

// Whether the old one can be kept under the name that was given. EXDEV: not on that file system.
Result<void> check_backup_place(int directory, const Backup &backup);
// As above, of the file `name` in the directory. EEXIST: the backup would replace what is no image,
// or one that is still needed.
Result<void> check_backup(int directory, const std::string &name, const Backup &backup);
// Links the file `name` in the directory under the name of a backup as well.
Result<void> link_backup(int directory, const std::string &name, const Backup &backup);
// The next free name of a numbered backup.
Result<std::string> next_backup(int directory, const std::string &name);
// Removes numbered backups of what has the name now; not those that it or a kept backup needs.
void remove_old_backups(int directory, const std::string &name, const Backup &backup);

} // namespace cryo::image
