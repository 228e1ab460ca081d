// SPDX-License-Identifier: Apache-2.0
#include "capture/files/file_contents.hpp"

#include "base/lent_mode.hpp"
#include "base/open_found.hpp"
#include "capture/files/other_name.hpp"
#include "look/proc.hpp"
#include "resources/contents.hpp"
#include "resources/descriptor_text.hpp"
#include "resources/memfd.hpp"
#include "resources/paths.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <string_view>
#include <sys/stat.h>

namespace cryo::capture {

using image::FileKind;

namespace {

// NFS keeps such a file until it is closed, so it will not exist at the restart.
bool is_silly_renamed(std::string_view path)
{
    return path.substr(path.rfind('/') + 1).substr(0, 4) == ".nfs";
}

// Where others may write, another file may be there by now, a FIFO or a device; and a hostile
// program exchanges its descriptors while they are looked at. So whatever the name leads to is
// compared with what was looked at before it is opened. A lease is not waited for.
//
// The kernel's name of a file leads over no link. If it does now, somebody has put that there, and
// the comparison with what was looked at says nothing: that was looked at over the link, too.
Result<Fd> open_same(const std::string &path, const image::File &file)
{
    const Result<Found> found = look_at(path, path == file.path ? Links::nowhere : Links::followed);
    if (!found)
        return found.error();
    const struct stat &now = found->status;
    if (!S_ISREG(now.st_mode) || now.st_ino != file.inode || now.st_dev != file.device)
        return Error(ESTALE, fmt::format("{}: another file has come to its place", path));
    constexpr int flags = O_RDONLY | O_NONBLOCK;
    return open_lent(*found, flags, [&] { return open_found(*found, flags); });
}

} // namespace

Result<void> FileContents::note(const resources::Seen &seen, resources::Saving &saving)
{
    image::File &file = files_.file_of(seen);
    if (file.object != 0 || (file.flags & image::kFileRenamed) != 0)
        return {};
    const bool by_name = seen.kind == FileKind::regular && is_named(seen);
    if (by_name && !is_silly_renamed(seen.link) && !options_.save_files)
        return {};
    if (seen.kind == FileKind::regular && !by_name && seen.status.st_nlink > 0) {
        const std::string other = other_name(seen);
        struct stat now;
        if (lstat(seen.link.c_str(), &now) != 0 && errno == EACCES) {
            saving.refuse(seen, "a file in a directory that may not be entered, " + seen.link,
                          "open it where the user of the program may open it again");
            return {};
        }
        if (other.empty()) {
            saving.refuse(
                seen,
                "a file that its name does not lead to, but that has another one, " + seen.link,
                "it was renamed by another host, mounted over, or is in another namespace");
            return {};
        }
        file.path = saving.keep(other);
        file.flags = (file.flags & ~image::kFileUnlinked) | image::kFileRenamed;
        if (!options_.save_files)
            return {};
    } else if (!by_name) {
        file.flags |= image::kFileUnlinked;
    }
    if (seen.kind == FileKind::memfd) {
        if (Result<void> done = resources::save_memory_file(seen, file); !done)
            return done;
    }
    file.flags |= image::kFileContentsSaved;
    file.object = objects_.take();
    const Proc process(saving.process(seen));
    contents_.push_back({file.id, process.path("fd/" + std::to_string(seen.fd)), {}, {}});
    if (seen.passed_in >= 0) {
        Fd kept(fcntl(seen.shared.get(), F_DUPFD_CLOEXEC, 3));
        if (!kept)
            return Error::from_errno("keeping " + seen.link, errno);
        contents_.back().path = process.path("fd/" + std::to_string(kept.get()));
        contents_.back().kept = std::move(kept);
    }
    Result<Fd> readable = open_same(contents_.back().path, file);
    if (!readable && readable.error().code() == ESTALE)
        return readable.error().within(resources::descriptor_text(seen));
    if (!readable)
        saving.refuse(
            seen,
            fmt::format("a file that cannot be read, {}: {}", seen.link, readable.error().text()),
            readable.error().code() == EWOULDBLOCK
                ? "a program must give up its lease on it before the checkpoint"
                : "its mode must allow its owner to read it");
    else if ((seen.status.st_mode & S_IRUSR) == 0)
        // Another mode is set only while the program, which may do so, too, stands still.
        contents_.back().opened = std::move(*readable);
    return {};
}

void FileContents::note_by_name(uint32_t id)
{
    image::File &file = files_.file(id);
    if (file.object != 0)
        return;
    file.flags |= image::kFileContentsSaved;
    file.object = objects_.take();
    contents_.push_back({id, std::string(file.path), {}, {}});
}

Result<void> FileContents::save(image::ImageWriter &writer, const std::function<void()> &at_work)
{
    std::vector<uint8_t> buffer(resources::contents_part);
    for (auto &[id, path, kept, opened] : contents_) {
        image::File &file = files_.file(id);
        image::Object object;
        object.id = file.object;
        object.kind = image::ObjectKind::file_contents;
        object.size = file.size;
        object.name = file.path;
        if (Result<void> added = writer.add(object); !added)
            return added;
        const Result<Fd> source = opened ? std::move(opened) : open_same(path, file);
        if (!source)
            return source.error();
        kept.reset();
        if (Result<void> saved =
                resources::save_contents(writer, file, source->get(), buffer, at_work);
            !saved)
            return saved;
    }
    return {};
}

} // namespace cryo::capture
