// SPDX-License-Identifier: Apache-2.0
#include "image/sink.hpp"

#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <linux/fs.h>
#include <linux/magic.h>
#include <memory>
#include <poll.h>
#include <stdio.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <utility>

#include "base/sync.hpp"
#include "image/format.hpp"

namespace cryo::image {

namespace {

// Removes the first `count` bytes from a list of pieces.
std::span<iovec> advance(std::span<iovec> pieces, size_t count)
{
    while (!pieces.empty() && count >= pieces[0].iov_len) {
        count -= pieces[0].iov_len;
        pieces = pieces.subspan(1);
    }
    if (count) {
        pieces[0].iov_base = static_cast<uint8_t *>(pieces[0].iov_base) + count;
        pieces[0].iov_len -= count;
    }
    return pieces;
}

void clear_flag(int fd, int flag)
{
    int flags = fcntl(fd, F_GETFL);
    fcntl(fd, F_SETFL, flags & ~flag);
}

// Returns 0 or an errno. A descriptor that the caller opened may be non-blocking: wait for it.
int write_all(int fd, std::span<iovec> pieces)
{
    while (!pieces.empty()) {
        ssize_t n = writev(fd, pieces.data(), int(pieces.size()));
        if (n >= 0) {
            pieces = advance(pieces, size_t(n));
            continue;
        }
        if (errno == EAGAIN) {
            pollfd p{fd, POLLOUT, 0};
            poll(&p, 1, -1);
        } else if (errno == EINVAL && (fcntl(fd, F_GETFL) & O_DIRECT)) {
            // The file system took O_DIRECT at open but not these blocks.
            clear_flag(fd, O_DIRECT);
        } else if (errno != EINTR) {
            return errno;
        }
    }
    return 0;
}

std::string proc_path(int fd)
{
    return fmt::format("/proc/self/fd/{}", fd);
}

// Returns 0 or an errno. Where a rename has no flags (NFS, 9p), a link refuses a taken name.
int take_free_name(int dir, const std::string &from, const std::string &to)
{
    if (renameat2(dir, from.c_str(), dir, to.c_str(), RENAME_NOREPLACE) == 0)
        return 0;
    if (errno != EINVAL || linkat(dir, from.c_str(), dir, to.c_str(), 0) != 0)
        return errno;
    unlinkat(dir, from.c_str(), 0);
    return 0;
}

} // namespace

std::string random_name(const std::string &name)
{
    uint64_t r = 0;
    if (getrandom(&r, sizeof r, 0) != sizeof r)
        r = uint64_t(getpid());
    return fmt::format(".{}.{:016x}.tmp", name.substr(0, 200), r);
}

Result<void> Sink::rewrite(uint64_t /*offset*/, Bytes /*pages*/)
{
    return Error(ESPIPE, "this output cannot be written at an earlier place again");
}

FileSink::FileSink(std::string path, const FileOptions &options)
    : path_(std::move(path)), options_(options)
{}

FileSink::~FileSink()
{
    if (!temporary_.empty())
        unlinkat(directory_.get(), temporary_.c_str(), 0);
}

Error FileSink::failure(std::string_view doing, int err) const
{
    return Error::from_errno(fmt::format("{}: {}", path_, doing), err);
}

Result<std::unique_ptr<Sink>> FileSink::create(const std::string &path, const FileOptions &options)
{
    std::unique_ptr<FileSink> sink(new FileSink(path, options));
    size_t slash = path.rfind('/');
    sink->name_ = path.substr(slash == std::string::npos ? 0 : slash + 1);
    if (sink->name_.empty() || sink->name_ == "." || sink->name_ == "..")
        return Error(EISDIR, path + ": is not the name of a file");
    std::string directory = slash == std::string::npos ? "." : path.substr(0, slash + 1);
    sink->directory_ = Fd(open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (!sink->directory_)
        return Error::from_errno(directory, errno);

    // Refuse before the work is done rather than after it.
    struct stat st;
    if (fstatat(sink->directory_.get(), sink->name_.c_str(), &st, AT_SYMLINK_NOFOLLOW) == 0) {
        if (options.existing == Existing::refuse)
            return Error(EEXIST, path + ": exists; choose another name or allow it to be replaced");
        if (S_ISDIR(st.st_mode))
            return Error(EISDIR, path + ": is a directory");
        if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
            return Error(EINVAL, path + ": is no regular file, and is not replaced by one; open it "
                                        "and name the descriptor");
    }
    if (options.existing == Existing::backup) {
        if (auto ok = check_backup(sink->directory_.get(), sink->name_, options.backup); !ok)
            return ok.error();
    }
    if (auto ok = sink->open_temporary(); !ok)
        return ok.error();
    if (options.placed != 0)
        sink->prepare_to_place();
    return std::unique_ptr<Sink>(std::move(sink));
}

// An unnamed file vanishes by itself however this process ends, even by SIGKILL. If the file system
// has none, or /proc is missing (linkat needs it to give the name), the file gets a hidden name.
Result<void> FileSink::open_temporary()
{
    int direct = options_.direct ? O_DIRECT : 0;
    const int access_mode = options_.placed != 0 ? O_RDWR : O_WRONLY;
    for (;;) {
        file_ =
            Fd(openat(directory_.get(), ".", O_TMPFILE | access_mode | O_CLOEXEC | direct, 0600));
        if (file_ && access(proc_path(file_.get()).c_str(), F_OK) == 0)
            return {};
        int err = file_ ? EOPNOTSUPP : errno;
        if (err == EOPNOTSUPP || err == EISDIR || err == ENOENT || (err == EINVAL && !direct)) {
            std::string name = random_name(name_);
            file_ =
                Fd(openat(directory_.get(), name.c_str(),
                          O_CREAT | O_EXCL | O_NOFOLLOW | access_mode | O_CLOEXEC | direct, 0600));
            if (file_) {
                temporary_ = name;
                return {};
            }
            err = errno;
            // Some file systems create the file before they refuse O_DIRECT.
            if (err == EINVAL)
                unlinkat(directory_.get(), name.c_str(), 0);
        }
        if (err != EINVAL || !direct)
            return failure("cannot create a temporary file beside it", err);
        direct = 0; // no O_DIRECT on this file system
    }
}

// If memory has no room for all of it, zero pages must be found before they are written, so nothing
// is placed. On a disk only fsync reports failed writes; without it, what is read back may differ
// from what was written, so placing requires `sync`.
void FileSink::prepare_to_place()
{
    struct statfs system;
    const bool is_memory = fstatfs(file_.get(), &system) == 0 &&
                           (system.f_type == TMPFS_MAGIC || system.f_type == RAMFS_MAGIC);
    if (is_memory) {
        rlimit limit = {};
        if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < options_.placed)
            return; // SIGXFSZ would end this process
        clear_flag(file_.get(), O_DIRECT);
        if (fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, 0, off_t(options_.placed)) != 0)
            return;
        taken_ = options_.placed;
    }
    may_place_ = is_memory || options_.sync;
}

void FileSink::begin()
{
    clear_flag(file_.get(), O_DIRECT);
}

// Frees memory that was reserved and not needed.
void FileSink::give_back_rest() const
{
    struct stat st;
    if (taken_ == 0 || fstat(file_.get(), &st) != 0 || uint64_t(st.st_size) >= taken_)
        return;
    fallocate(file_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, st.st_size,
              off_t(taken_) - st.st_size);
}

Result<void> FileSink::read_at(uint64_t offset, MutableBytes to) const
{
    while (!to.empty()) {
        const ssize_t n = pread(file_.get(), to.data(), to.size(), off_t(offset));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failure("reading what was written", n == 0 ? ENODATA : errno);
        to = to.subspan(size_t(n));
        offset += uint64_t(n);
    }
    return {};
}

Result<void> FileSink::write_at(uint64_t offset, Bytes bytes) const
{
    while (!bytes.empty()) {
        const ssize_t n = pwrite(file_.get(), bytes.data(), bytes.size(), off_t(offset));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return failure("writing", n == 0 ? EIO : errno);
        bytes = bytes.subspan(size_t(n));
        offset += uint64_t(n);
    }
    return {};
}

// A disk writes dirty pages before it punches a hole in them, so a small hole does not pay.
uint64_t FileSink::least_hole() const
{
    return taken_ != 0 ? kPageSize : 64 * kPageSize;
}

Result<void> FileSink::go_to(uint64_t offset) const
{
    if (lseek(file_.get(), off_t(offset), SEEK_SET) < 0)
        return failure("writing", errno);
    return {};
}

Result<void> FileSink::write(std::span<iovec> pieces)
{
    if (int err = write_all(file_.get(), pieces))
        return failure("writing", err);
    return {};
}

// Gives the file a hidden name: linkat cannot replace an existing file, rename can.
Result<void> FileSink::name_aside()
{
    if (!temporary_.empty())
        return {};
    std::string name = random_name(name_);
    if (linkat(AT_FDCWD, proc_path(file_.get()).c_str(), directory_.get(), name.c_str(),
               AT_SYMLINK_FOLLOW))
        return failure("giving the image its name", errno);
    temporary_ = name;
    return {};
}

// Takes the name if it is free. Otherwise exchanges the image with the file that has it; or, if the
// file system cannot exchange, gives that file a second name first, if it can do that.
Result<void> FileSink::publish_for_now()
{
    const int dir = directory_.get();
    // Kept open as long as it may be taken back: otherwise another file could get its inode number.
    const auto file = std::make_shared<Fd>(fcntl(file_.get(), F_DUPFD_CLOEXEC, 0));
    std::string before; // where the replaced file is; empty: there is none
    bool is_lost = false;
    if (const int taken = take_free_name(dir, temporary_, name_); taken == 0) {
        temporary_.clear();
    } else if (options_.existing == Existing::refuse) {
        return failure("giving the image its name", taken);
    } else if (renameat2(dir, temporary_.c_str(), dir, name_.c_str(), RENAME_EXCHANGE) == 0) {
        before = std::exchange(temporary_, std::string());
    } else {
        before = random_name(name_);
        is_lost = linkat(dir, name_.c_str(), dir, before.c_str(), 0) != 0;
        if (is_lost)
            before.clear();
        if (renameat(dir, temporary_.c_str(), dir, name_.c_str()) != 0) {
            const Error why = failure("giving the image its name", errno);
            if (!is_lost)
                unlinkat(dir, before.c_str(), 0);
            return why;
        }
        temporary_.clear();
    }
    const auto place = std::make_shared<Fd>(fcntl(dir, F_DUPFD_CLOEXEC, 0));
    options_.publication->has_been(
        [place, before, name = name_, options = options_]() -> Result<void> {
            if (!before.empty())
                unlinkat(place->get(), before.c_str(), 0);
            if (options.existing == Existing::backup)
                remove_old_backups(place->get(), name, options.backup);
            return {};
        },
        [place, before, is_lost, file, name = name_, path = path_]() -> Result<void> {
            struct stat ours, now;
            if (is_lost || fstat(file->get(), &ours) != 0 ||
                fstatat(place->get(), name.c_str(), &now, AT_SYMLINK_NOFOLLOW) != 0 ||
                now.st_dev != ours.st_dev || now.st_ino != ours.st_ino)
                return Error(EBUSY, path + ": cannot be withdrawn and is as it was saved");
            const int done =
                before.empty() ? unlinkat(place->get(), name.c_str(), 0)
                               : renameat(place->get(), before.c_str(), place->get(), name.c_str());
            return done == 0 ? Result<void>() : Error::from_errno(path + ": taking it back", errno);
        });
    return {};
}

Result<void> FileSink::publish()
{
    int dir = directory_.get();
    if (options_.publication != nullptr) {
        if (Result<void> named = name_aside(); !named)
            return named;
        const std::string place = std::filesystem::path(path_).replace_filename(temporary_);
        if (Result<void> may = options_.publication->may_be(place); !may)
            return may;
        Result<void> kept = options_.existing == Existing::backup
                                ? link_backup(dir, name_, options_.backup)
                                : Result<void>();
        return kept ? publish_for_now() : kept;
    }
    if (options_.existing == Existing::refuse) {
        int err = 0;
        if (!temporary_.empty())
            err = take_free_name(dir, temporary_, name_);
        else if (linkat(AT_FDCWD, proc_path(file_.get()).c_str(), dir, name_.c_str(),
                        AT_SYMLINK_FOLLOW) != 0)
            err = errno;
        if (err != 0)
            return failure("giving the image its name", err);
        temporary_.clear();
        return {};
    }
    if (auto ok = name_aside(); !ok)
        return ok;
    if (options_.existing == Existing::backup) {
        if (auto ok = link_backup(dir, name_, options_.backup); !ok)
            return ok;
    }
    if (renameat(dir, temporary_.c_str(), dir, name_.c_str()))
        return failure("giving the image its name", errno);
    temporary_.clear();
    if (options_.existing == Existing::backup)
        remove_old_backups(dir, name_, options_.backup);
    return {};
}

mode_t FileSink::final_mode() const
{
    struct stat replaced;
    const bool writable =
        options_.keep_write &&
        fstatat(directory_.get(), name_.c_str(), &replaced, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(replaced.st_mode) && (replaced.st_mode & S_IWUSR) != 0;
    return writable ? options_.mode | S_IWUSR : options_.mode;
}

Result<void> FileSink::commit()
{
    give_back_rest();
    if (fchmod(file_.get(), final_mode()))
        return failure("setting its mode", errno);
    if (const int err = options_.sync ? sync_file(file_.get()) : 0)
        return failure("fsync", err);
    if (auto ok = publish(); !ok)
        return ok;
    if (const int err = options_.sync ? sync_directory(directory_.get()) : 0) {
        if (options_.existing != Existing::refuse)
            return failure("is in place, but a power cut may take it away: fsync of its directory",
                           err);
        unlinkat(directory_.get(), name_.c_str(), 0); // an image reported as lost must not be there
        return failure("fsync of its directory", err);
    }
    return {};
}

Result<void> StreamSink::commit()
{
    // A pipe, a socket or a terminal has no disk.
    const int err = sync_ ? sync_file(fd_.get()) : 0;
    if (err != 0 && err != EINVAL && err != EROFS && err != ENOTSUP)
        return Error::from_errno(name_ + ": fsync", err);
    return {};
}

Result<void> StreamSink::write(std::span<iovec> pieces)
{
    if (int err = write_all(fd_.get(), pieces))
        return Error::from_errno(name_ + ": writing", err);
    return {};
}

} // namespace cryo::image
