// SPDX-License-Identifier: Apache-2.0
#include "server/depot.hpp"

#include "base/clock.hpp"
#include "base/sync.hpp"
#include "base/trust.hpp"
#include "base/write_all.hpp"
#include "coord/image_copy.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <string_view>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>
#include <utility>

namespace cryo::server {

namespace {

constexpr const char *lock_name = ".lock";
constexpr std::string_view incoming_prefix = ".incoming.";
constexpr mode_t complete_mode = 0400; // as of images elsewhere
constexpr mode_t for_others = S_IRWXG | S_IRWXO;
constexpr const char *way_out = "name another directory for the server";

int lock(int fd)
{
    int failed;
    while ((failed = flock(fd, LOCK_EX | LOCK_NB)) != 0 && errno == EINTR) {
    }
    return failed;
}

Result<Fd> lock_of(const Directory &directory)
{
    Fd fd(openat(directory.fd(), lock_name, O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC,
                 0600));
    if (!fd)
        return Error::from_errno(directory.path(lock_name), errno);
    if (lock(fd.get()) == 0)
        return fd;
    return errno == EWOULDBLOCK
               ? Error(EBUSY, directory.path() + ": another cr_server keeps its images there")
               : Error::from_errno(directory.path(lock_name), errno);
}

// As StoredImage::file() makes it; none: it is no image's.
std::optional<StoredImage> parse(std::string_view file)
{
    const size_t second = file.rfind('~');
    const size_t first = second == std::string_view::npos || second == 0
                             ? std::string_view::npos
                             : file.rfind('~', second - 1);
    if (first == std::string_view::npos)
        return {};
    StoredImage image;
    const std::string_view name = file.substr(0, first);
    const size_t comma = name.find(',');
    if (comma != std::string_view::npos)
        image.image.series = name.substr(0, comma);
    image.image.name = name.substr(comma == std::string_view::npos ? 0 : comma + 1);
    const std::string_view number = file.substr(first + 1, second - first - 1);
    std::from_chars(number.data(), number.data() + number.size(), image.number);
    image.checksum = file.substr(second + 1);
    const bool good = is_image_name(image.image.name) &&
                      (comma == std::string_view::npos || is_image_name(image.image.series)) &&
                      coord::is_image_checksum(image.checksum);
    return good && image.file() == file ? std::optional(std::move(image)) : std::nullopt;
}

Error no_such(const ImageName &image)
{
    return {ENOENT, image.text() + ": the server has no such image"};
}

} // namespace

std::string StoredImage::file() const
{
    return fmt::format("{}{}{}~{}~{}", image.series, image.series.empty() ? "" : ",", image.name,
                       number, checksum);
}

IncomingImage::IncomingImage(Depot &depot, ImageName image, uint64_t number, uint64_t promised)
    : depot_(depot), about_{.image = std::move(image), .number = number}, promised_(promised)
{
    depot_.promised_ += promised_;
}

IncomingImage::~IncomingImage()
{
    depot_.promised_ -= promised_;
    depot_.incoming_.erase(about_.image);
    if (fd_ && !published_)
        unlinkat(depot_.directory_.fd(), temporary().c_str(), 0);
}

std::string IncomingImage::temporary() const
{
    return fmt::format("{}{}", incoming_prefix, about_.number);
}

Result<void> IncomingImage::add(image::Bytes piece)
{
    if (piece.size() > promised_ - about_.bytes)
        return Error(EFBIG, fmt::format("{}: is larger than the {} bytes that were announced",
                                        about_.image.text(), promised_));
    if (Result<void> written = write_all(fd_.get(), depot_.path(), piece); !written)
        return written;
    hasher_.add(piece);
    about_.bytes += piece.size();
    return {};
}

Result<void> IncomingImage::compare(const std::string &checksum)
{
    about_.checksum = hasher_.digest().hex();
    if (about_.bytes == promised_ && about_.checksum == checksum)
        return {};
    return Error(EBADMSG, fmt::format("{}: what has come is not what was sent ({} of {} bytes, "
                                      "checksum)",
                                      about_.image.text(), about_.bytes, promised_));
}

Result<void> IncomingImage::publish()
{
    const Directory &directory = depot_.directory_;
    if (fchmod(fd_.get(), complete_mode) != 0)
        return Error::from_errno(depot_.path(), errno);
    if (const int error = sync_file(fd_.get()))
        return Error::from_errno(depot_.path(), error);
    about_.when_ns = clock_ns(CLOCK_REALTIME);
    if (Result<void> named = directory.rename(temporary(), about_.file()); !named)
        return named;
    published_ = true;
    if (Result<void> synced = directory.sync(); !synced) {
        unlinkat(directory.fd(), about_.file().c_str(), 0); // nobody was told of it
        return synced;
    }
    return {};
}

Result<std::unique_ptr<Depot>> Depot::open(const std::string &path, uint64_t quota)
{
    Result<Directory> directory = Directory::open_or_make(path);
    if (!directory)
        return directory.error();
    if (Result<void> own = check_own(directory->fd(), path, way_out); !own)
        return own.error();
    struct stat status = {};
    if (fstat(directory->fd(), &status) != 0)
        return Error::from_errno(path, errno);
    if ((status.st_mode & for_others) != 0)
        return Error(EACCES, fmt::format("{}: other users may look into it (mode {:04o}), and "
                                         "images have a program's memory: chmod 700, or {}",
                                         path, status.st_mode & 07777U, way_out));
    Result<Fd> locked = lock_of(*directory);
    if (!locked)
        return locked.error();
    std::unique_ptr<Depot> depot(new Depot(std::move(*directory), std::move(*locked), quota));
    if (Result<void> looked = depot->look(); !looked)
        return looked.error();
    return depot;
}

// An earlier server's unfinished images go, and those that it had replaced.
Result<void> Depot::look()
{
    const Result<std::vector<std::string>> names = directory_.names();
    if (!names)
        return names.error();
    for (const std::string &name : *names) {
        if (name == lock_name)
            continue;
        if (name.starts_with(incoming_prefix)) {
            if (Result<void> removed = directory_.remove(name); !removed)
                return removed;
            continue;
        }
        std::optional<StoredImage> found = parse(name);
        const Result<std::optional<struct stat>> status = directory_.look(name);
        if (!status)
            return status.error();
        if (!found || !status->has_value() || !S_ISREG((*status)->st_mode) ||
            (*status)->st_uid != geteuid()) {
            others_.push_back(name);
            continue;
        }
        found->bytes = static_cast<uint64_t>((*status)->st_size);
        found->when_ns =
            int64_t((*status)->st_mtim.tv_sec) * 1'000'000'000 + (*status)->st_mtim.tv_nsec;
        next_ = std::max(next_, found->number + 1);
        used_ += found->bytes;
        const auto [known, is_only] = images_.try_emplace(found->image, *found);
        if (is_only)
            continue;
        const StoredImage older =
            known->second.number < found->number ? std::exchange(known->second, *found) : *found;
        if (Result<void> removed = directory_.remove(older.file()); !removed)
            return removed;
        used_ -= older.bytes;
    }
    std::ranges::sort(others_);
    return {};
}

Result<void> Depot::has_room(uint64_t bytes) const
{
    const uint64_t taken = used_ + promised_;
    if (quota_ != 0 && (taken > quota_ || bytes > quota_ - taken))
        return Error(EDQUOT, fmt::format("the server's quota is {} bytes, of which {} are taken: "
                                         "{} more do not fit",
                                         quota_, taken, bytes));
    if (images_.size() + incoming_.size() >= most_images)
        return Error(EDQUOT, fmt::format("the server has {} images, which is the most that it "
                                         "keeps",
                                         images_.size()));
    struct statvfs disk = {};
    if (fstatvfs(directory_.fd(), &disk) != 0)
        return Error::from_errno(path(), errno);
    const uint64_t room = uint64_t(disk.f_bavail) * disk.f_frsize;
    if (bytes > room)
        return Error(ENOSPC, fmt::format("{}: the server's disk has room for {} bytes, not for {}",
                                         path(), room, bytes));
    return {};
}

Result<std::shared_ptr<IncomingImage>> Depot::begin(const ImageName &image, uint64_t bytes,
                                                    Existing existing, const std::string &client)
{
    if (const auto busy = incoming_.find(image); busy != incoming_.end())
        return Error(EBUSY, fmt::format("{}: is being sent by another client, of node {}",
                                        image.text(), busy->second));
    if (existing == Existing::refuse && images_.contains(image))
        return Error(EEXIST, image.text() + ": the server has an image of that name");
    if (Result<void> room = has_room(bytes); !room)
        return room.error();
    const uint64_t number = next_++;
    std::shared_ptr<IncomingImage> incoming(new IncomingImage(*this, image, number, bytes));
    incoming_[image] = client;
    const std::string name = incoming->temporary();
    incoming->fd_ =
        Fd(openat(directory_.fd(), name.c_str(),
                  O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (!incoming->fd_)
        return Error::from_errno(directory_.path(name), errno);
    return incoming;
}

Result<StoredImage> Depot::enter(const IncomingImage &incoming)
{
    StoredImage &known = images_[incoming.image()];
    const StoredImage before = std::exchange(known, incoming.about_);
    used_ += known.bytes;
    // What cannot be removed counts, and goes when the server is started again.
    if (before.number != 0 && directory_.remove(before.file()))
        used_ -= before.bytes;
    return known;
}

Result<StoredImage> Depot::find(const ImageName &image) const
{
    const auto at = images_.find(image);
    return at != images_.end() ? Result<StoredImage>(at->second) : no_such(image);
}

Result<Fd> Depot::open_image(const StoredImage &image) const
{
    const std::string file = image.file();
    Fd fd(openat(directory_.fd(), file.c_str(),
                 O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
    struct stat status = {};
    if (!fd || fstat(fd.get(), &status) != 0)
        return Error::from_errno(directory_.path(file), errno);
    if (!S_ISREG(status.st_mode) || static_cast<uint64_t>(status.st_size) != image.bytes)
        return Error(EBADMSG, directory_.path(file) + ": is not the file that the server has "
                                                      "written (its size is another one)");
    return fd;
}

Result<void> Depot::remove(const ImageName &image, const std::string &checksum)
{
    const auto at = images_.find(image);
    if (at == images_.end())
        return no_such(image);
    if (at->second.checksum != checksum)
        return Error(ESTALE, image.text() + ": the server has another image of that name, which "
                                            "stays");
    if (const auto busy = incoming_.find(image); busy != incoming_.end())
        return Error(EBUSY, fmt::format("{}: is being replaced by a client of node {}",
                                        image.text(), busy->second));
    if (Result<void> removed = directory_.remove(at->second.file()); !removed)
        return removed;
    used_ -= at->second.bytes;
    images_.erase(at);
    return directory_.sync();
}

} // namespace cryo::server
