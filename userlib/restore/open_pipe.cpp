// SPDX-License-Identifier: Apache-2.0
// Pipes and FIFOs, with what was in them.
#include "base/open_found.hpp"
#include "restore/open_parts.hpp"
#include "restore/trusted_path.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::restore {

using image::FileKind;

namespace {

struct Ends {
    Fd reader, writer;
};

Result<Ends> anonymous()
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC | O_NONBLOCK) != 0)
        return Error::from_errno("making a pipe", errno);
    return Ends{Fd(fds[0]), Fd(fds[1])};
}

Error not_opened(const std::string &path, int why)
{
    return Error(why, fmt::format("FIFO {}: {}; make it again (mkfifo)", path, strerror(why)));
}

// Nothing but a FIFO is opened.
Result<Ends> both_ends(const Found &found)
{
    if (!S_ISFIFO(found.status.st_mode))
        return Error(EINVAL, fmt::format("{} is no FIFO any more", found.path));
    // Opened for reading and writing, it waits for no peer.
    Result<Fd> opened = open_found(found, O_RDWR | O_NONBLOCK);
    if (!opened)
        return not_opened(found.path, opened.error().code());
    Ends ends{std::move(*opened), Fd()};
    ends.writer.reset(fcntl(ends.reader.get(), F_DUPFD_CLOEXEC, 3));
    if (!ends.writer)
        return Error::from_errno(fmt::format("opening FIFO {}", found.path), errno);
    return ends;
}

// In a directory of its own, so that nobody else has its name before; and where nobody else can
// rename that.
Result<Ends> fifo_for_a_moment(const Planning &p, const std::string &place)
{
    const Fd there(open(place.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!there || !keeps_names(p, there.get()))
        return Error(EPERM, place + ": another user may rename what is made there");
    std::string directory = place + "/.cryo.XXXXXX";
    if (mkdtemp(directory.data()) == nullptr)
        return Error::from_errno("making a FIFO for a moment in " + place, errno);
    const std::string path = directory + "/fifo";
    const bool made = mkfifo(path.c_str(), 0600) == 0;
    const Result<Found> found =
        made ? look_at(path, Links::not_at_end) : Error::from_errno(path, errno);
    Result<Ends> ends =
        found ? both_ends(*found)
              : Error::from_errno("making a FIFO for a moment, " + path, found.error().code());
    unlink(path.c_str());
    rmdir(directory.c_str());
    return ends;
}

// One without a name gets one for a moment.
Result<Ends> fifo_without_name(const Planning &p, const image::File &file)
{
    const std::string place(file.path.substr(0, std::max<size_t>(file.path.rfind('/'), 1)));
    Result<Ends> ends = fifo_for_a_moment(p, place);
    if (!ends)
        ends = fifo_for_a_moment(p, "/tmp");
    if (ends)
        fchmod(ends->reader.get(), file.mode & 07777);
    return ends;
}

// Both ends of a FIFO. One that was removed since the checkpoint is made again, because the image
// has all its contents.
Result<Ends> fifo(const Planning &p, const image::File &file)
{
    if ((file.flags & image::kFileUnlinked) != 0)
        return fifo_without_name(p, file);
    const std::string path(file.path);
    const bool removed = access(path.c_str(), F_OK) != 0 && errno == ENOENT;
    const bool made = removed && mkfifo(path.c_str(), 0600) == 0;
    const Result<Found> found = find_trusted(p.options, file);
    if (!found) {
        const int why = found.error().code();
        if (made)
            unlink(path.c_str());
        return why == EPERM ? found.error() : not_opened(path, why);
    }
    Result<Ends> ends = both_ends(*found);
    if (made && ends)
        fchmod(ends->reader.get(), file.mode & 07777);
    return ends;
}

Result<void> fill(Planning &p, const image::Pipe &pipe, int writer)
{
    Result<std::string> bytes = small_contents(p, pipe.object, pipe.size);
    if (!bytes)
        return bytes.error();
    std::string_view rest = *bytes;
    const bool packets = !pipe.packets.empty();
    if (packets && fcntl(writer, F_SETFL, O_NONBLOCK | O_DIRECT) != 0)
        return Error::from_errno("putting a pipe into packet mode", errno);
    for (size_t i = 0; !rest.empty(); i++) {
        const size_t part = packets && i < pipe.packets.size()
                                ? std::min<size_t>(pipe.packets[i], rest.size())
                                : rest.size();
        const ssize_t n = write(writer, rest.data(), part);
        if (n <= 0)
            return Error(n < 0 ? errno : EIO, "filling a pipe with what was in it: it holds less "
                                              "than the saved one");
        rest.remove_prefix(static_cast<size_t>(n));
    }
    return {};
}

Result<void> open_inside(Planning &p, const image::Pipe &pipe, const image::File &file)
{
    const bool named = file.kind == FileKind::fifo;
    // In a rehearsal, other users of the real FIFO would notice its ends and its data.
    Result<Ends> ends = named && !p.options.rehearse ? fifo(p, file) : anonymous();
    if (!ends)
        return ends.error();
    const std::string what = named ? std::string(file.path) : "a pipe";
    if (pipe.capacity > 0 &&
        fcntl(ends->writer.get(), F_SETPIPE_SZ, static_cast<int>(pipe.capacity)) < 0)
        return Error(errno, fmt::format("making {} hold {} bytes: {} (see "
                                        "/proc/sys/fs/pipe-max-size)",
                                        what, pipe.capacity, strerror(errno)));
    if (pipe.size > 0) {
        if (Result<void> filled = fill(p, pipe, ends->writer.get()); !filled)
            return filled;
    }
    bool given[2] = {false, false}; // the reader, the writer of an anonymous pipe
    for (const auto &[id, open_file] : p.saved.open_files()) {
        if (open_file.file != file.id || (open_file.flags & O_PATH) != 0 || is_opened(p, id))
            continue;
        const uint32_t access = open_file.flags & O_ACCMODE;
        const int which = access == O_WRONLY ? 1 : 0;
        const Fd &end = which == 1 ? ends->writer : ends->reader;
        Fd own;
        if (!named && access != O_RDWR && !given[which]) {
            given[which] = true;
            own.reset(fcntl(end.get(), F_DUPFD_CLOEXEC, 3));
            if (!own)
                return Error::from_errno("opening " + what, errno);
            if (Result<void> set = set_flags(own.get(), open_file.flags, what); !set)
                return set;
        } else {
            // An end that was opened a second time is an open file of its own.
            Result<Fd> again = open_again(end.get(), open_file.flags, what);
            if (!again)
                return again.error();
            own = std::move(*again);
        }
        if (Result<int> kept = keep_open(p, std::move(own), id); !kept)
            return kept.error();
    }
    return {};
}

Result<void> open_outside(Planning &p, const image::Pipe &pipe, const image::File &file)
{
    for (const auto &[id, open_file] : p.saved.open_files()) {
        if (open_file.file != file.id || (open_file.flags & O_PATH) != 0 || is_opened(p, id))
            continue;
        if (pipe.outside > 2) {
            Result<Ends> ends = anonymous();
            if (!ends)
                return ends.error();
            Fd &end = (open_file.flags & O_ACCMODE) == O_WRONLY ? ends->writer : ends->reader;
            if (Result<void> set = set_flags(end.get(), open_file.flags, file.path); !set)
                return set;
            if (Result<int> kept = keep_open(p, std::move(end), id); !kept)
                return kept.error();
            p.plan.notices.push_back(fmt::format(
                "descriptor {}, a pipe to a process outside the image, is closed at its other end",
                descriptor_of(p, id)));
            continue;
        }
        const int which = standard_for(p, open_file);
        if (Result<int> kept = open_standard(p, which, id); !kept)
            return kept.error();
        p.plan.notices.push_back(
            fmt::format("a pipe to a process outside the image is cr_restart's standard {} now",
                        which == 0   ? "input"
                        : which == 1 ? "output"
                                     : "error output"));
    }
    return {};
}

} // namespace

Result<void> open_pipes(Planning &p)
{
    for (const auto &[id, pipe] : p.saved.of<image::Pipe>()) {
        const auto file = p.saved.files().find(id);
        if (file == p.saved.files().end())
            return Error(EINVAL, "a pipe refers to no file");
        Result<void> done = pipe.outside != 0 ? open_outside(p, pipe, file->second)
                                              : open_inside(p, pipe, file->second);
        if (!done)
            return done;
    }
    return {};
}

} // namespace cryo::restore
