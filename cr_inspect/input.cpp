// SPDX-License-Identifier: Apache-2.0
#include "input.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>

#include "cli/text.hpp"
#include "image/base_finder.hpp"
#include "image/stream_reader.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

using namespace cryo::image;

namespace {

bool is_stream(const std::string &path)
{
    struct stat st;
    return path == "-" || path == "/dev/stdin" ||
           (stat(path.c_str(), &st) == 0 && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
}

// The library opens no symbolic link, lest it restart something else than was meant. To look at
// the file is harmless.
std::string resolve(const std::string &path)
{
    std::error_code error;
    if (std::filesystem::is_symlink(path, error))
        if (auto target = std::filesystem::canonical(path, error); !error)
            return target.string();
    return path;
}

std::string member_name(const Source &source, const SnapshotMember &member)
{
    if (source.kind == "directory")
        return source.name + "/" + member.name;
    if (source.kind == "archive")
        return fmt::format("{}[{}]", source.name, member.pid);
    return source.name;
}

} // namespace

Source Input::load_stream(const std::string &path, int fd) const
{
    Source out{.name = path, .kind = "stream"};
    auto images = Description::of_stream(fd, path);
    if (!images) {
        out.error = images.error();
        return out;
    }
    for (Description &d : *images) {
        if (d.header.role == Role::tree) {
            auto tree = d.one<Tree>();
            out.scope = tree.scope;
            out.root_pid = tree.root_pid;
            for (const Member &m : d.all<Member>())
                out.members.push_back({.place = {m.offset, m.length},
                                       .id = Digest::from_bytes(m.image_id),
                                       .checksum = Digest::from_bytes(m.checksum),
                                       .state = m.state,
                                       .pid = m.pid,
                                       .ppid = m.ppid,
                                       .pgid = m.pgid,
                                       .sid = m.sid,
                                       .wait_status = m.wait_status,
                                       .comm = std::string(m.comm)});
            continue;
        }
        if (uint32_t pid = d.one<Process>().pid; wanted(pid)) {
            std::string name = images->size() > 1 ? fmt::format("{}[{}]", path, pid) : path;
            out.entries.push_back({.name = name, .about = std::move(d)});
        }
    }
    return out;
}

Source Input::load(const std::string &path) const
{
    if (is_stream(path)) {
        if (path == "-" || path == "/dev/stdin")
            return load_stream("standard input", STDIN_FILENO);
        Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
        if (fd)
            return load_stream(path, fd.get());
        return {.name = path, .error = Error::from_errno(path, errno)};
    }
    std::string real = resolve(path);
    Source out{.name = path};
    auto snapshot = Snapshot::open(real, {.find_base = BaseFinder(options_.bases).beside(real)});
    if (!snapshot) {
        out.error = snapshot.error();
        return out;
    }
    take(out, std::move(*snapshot));
    return out;
}

Source Input::load_file(Fd fd, const std::string &path) const
{
    Source out{.name = path};
    auto snapshot =
        Snapshot::open(std::move(fd), path, {.find_base = BaseFinder(options_.bases).beside(path)});
    if (!snapshot) {
        out.error = snapshot.error();
        return out;
    }
    take(out, std::move(*snapshot));
    return out;
}

void Input::take(Source &out, std::unique_ptr<Snapshot> snapshot) const
{
    out.snapshot = std::move(snapshot);
    out.kind = out.snapshot->is_directory() ? "directory"
               : out.snapshot->is_plain()   ? "image"
                                            : "archive";
    out.scope = out.snapshot->scope();
    out.root_pid = out.snapshot->root_pid();
    out.members = out.snapshot->members();
    for (size_t i = 0; i < out.members.size(); i++) {
        const SnapshotMember &m = out.members[i];
        if (m.state != MemberState::saved || !wanted(m.pid))
            continue;
        Entry entry{.name = member_name(out, m), .member = i};
        auto image = out.snapshot->open_member(m);
        auto about = image ? Description::of(**image) : image.error();
        if (about)
            entry.about = std::move(*about);
        else
            entry.error = about.error();
        out.entries.push_back(std::move(entry));
    }
    if (out.entries.empty() && options_.pid)
        out.error =
            Error(ENOENT, fmt::format("{}: has no image of pid {}", out.name, options_.pid));
}

Result<std::unique_ptr<Image>> Input::open(const Source &source, const Entry &entry) const
{
    if (!source.snapshot)
        return Error(ESPIPE, source.name + ": is a stream; save it to a file for this");
    return source.snapshot->open_member(source.members[entry.member]);
}

Result<std::unique_ptr<Image>> Input::open_only(const std::string &path) const
{
    Source source = load(path);
    if (source.error)
        return *source.error;
    if (source.entries.size() != 1)
        return Error(EINVAL, fmt::format("{}: holds {} images; choose one with --pid", path,
                                         source.entries.size()));
    if (source.entries[0].error)
        return *source.entries[0].error;
    return open(source, source.entries[0]);
}

std::string diagnose(const std::string &path)
{
    if (is_stream(path))
        return "";
    Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    struct stat st;
    if (!fd || fstat(fd.get(), &st) || !S_ISREG(st.st_mode))
        return "";
    StreamReader reader(fd.get(), path);
    uint64_t images = 0;
    uint64_t records = 0;
    uint64_t pages = 0;
    std::optional<int64_t> created;
    for (;;) {
        auto item = reader.next();
        if (!item || item->kind == StreamItem::Kind::end_of_stream)
            break;
        if (item->kind == StreamItem::Kind::image)
            created = reader.header().created;
        images += item->kind == StreamItem::Kind::committed;
        records += item->kind == StreamItem::Kind::record;
        pages += item->kind == StreamItem::Kind::pages ? item->extent.count : 0;
    }
    if (!created)
        return "";
    std::string whole =
        images ? count_text(images, "whole image, ", "whole images, ") : std::string();
    return fmt::format("begun {}; intact are {}{} and {} of pages up to there. "
                       "Nothing can be restarted from it: use another checkpoint",
                       time_text(*created), whole, count_text(records, "record", "records"),
                       pages_text(pages));
}

} // namespace cryo::inspect
