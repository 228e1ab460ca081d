// SPDX-License-Identifier: Apache-2.0
#include "image/snapshot.hpp"

#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>

namespace cryo::image {

// The archive's sink as a member's writer sees it: committing a member commits nothing yet.
class ArchiveWriter::MemberSink : public Sink
{
  public:
    MemberSink(Sink &sink, uint64_t start) : sink_(sink), start_(start) {}
    Result<void> write(std::span<iovec> pieces) override { return sink_.write(pieces); }
    Result<void> commit() override { return {}; }
    bool can_rewrite() const override { return sink_.can_rewrite(); }
    Result<void> rewrite(uint64_t offset, Bytes pages) override
    {
        return sink_.rewrite(start_ + offset, pages);
    }

  private:
    Sink &sink_;
    uint64_t start_; // of the member in the archive
};

ArchiveWriter::ArchiveWriter(std::unique_ptr<Sink> sink) : sink_(std::move(sink)) {}
ArchiveWriter::~ArchiveWriter() = default;

Result<std::unique_ptr<ImageWriter>> ArchiveWriter::begin_member(WriterOptions options)
{
    options.hints |= kHintMember; // so that an archive cut after it is not taken for a plain image
    return ImageWriter::create(std::make_unique<MemberSink>(*sink_, offset_), options);
}

Result<Committed> ArchiveWriter::end_member(ImageWriter &writer, Member about)
{
    auto done = writer.commit();
    if (!done)
        return done;
    about.state = MemberState::saved;
    about.name = {};
    about.offset = offset_;
    about.length = done->size;
    about.image_id = done->id.bytes();
    about.checksum = done->checksum.bytes();
    std::vector<uint8_t> &encoded = members_.emplace_back(encoded_size(about));
    encode(about, encoded);
    offset_ += done->size;
    return done;
}

void ArchiveWriter::add_without_image(Member about)
{
    about.offset = about.length = 0;
    std::vector<uint8_t> &encoded = members_.emplace_back(encoded_size(about));
    encode(about, encoded);
}

Result<Committed> ArchiveWriter::commit(Tree tree)
{
    auto writer = ImageWriter::create(std::move(sink_), {.role = Role::tree, .synchronous = true});
    if (!writer)
        return writer.error();
    tree.members = uint32_t(members_.size());
    tree.directory = false;
    if (auto ok = (*writer)->add(tree); !ok)
        return ok.error();
    for (const auto &m : members_)
        if (auto ok =
                (*writer)->add_record(Member::type, Member::version, record_flags<Member>(), m);
            !ok)
            return ok.error();
    auto done = (*writer)->commit();
    if (done)
        done->size += offset_; // of the whole archive
    return done;
}

Result<Committed> write_tree(std::unique_ptr<Sink> sink, Tree tree, std::span<const Member> members)
{
    auto writer = ImageWriter::create(std::move(sink), {.role = Role::tree, .synchronous = true});
    if (!writer)
        return writer.error();
    tree.members = uint32_t(members.size());
    tree.directory = true;
    if (auto ok = (*writer)->add(tree); !ok)
        return ok.error();
    for (const Member &m : members)
        if (auto ok = (*writer)->add(m); !ok)
            return ok.error();
    return (*writer)->commit();
}

Result<std::unique_ptr<Snapshot>> Snapshot::open(const std::string &path, OpenOptions options)
{
    auto snapshot = std::make_unique<Snapshot>();
    snapshot->path_ = path;
    snapshot->options_ = options;
    struct stat st;
    if (stat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode)) {
        auto directory = Directory::open(path);
        if (!directory)
            return directory.error();
        if (options.trust)
            if (auto ok = options.trust->check(directory->fd(), path); !ok)
                return ok.error();
        snapshot->directory_.emplace(std::move(*directory));
    }
    auto image = snapshot->directory_ ? snapshot->open_in_directory(kTreeFile)
                                      : Image::open(path, std::move(options));
    if (!image && snapshot->directory_ && image.error().code() == ENOENT)
        return Error(ENOENT,
                     path + ": is a directory without images of a tree (" + kTreeFile +
                         "); the snapshot of an MPI job is brought back by ompi-restart, and shown "
                         "by cr_inspect --html");
    if (!image)
        return image.error();
    if (auto ok = snapshot->take(std::move(*image)); !ok)
        return ok.error();
    return snapshot;
}

Result<std::unique_ptr<Snapshot>> Snapshot::open(Fd fd, const std::string &name,
                                                 OpenOptions options)
{
    auto snapshot = std::make_unique<Snapshot>();
    snapshot->path_ = name;
    snapshot->options_ = options;
    snapshot->fd_ = Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0));
    if (!snapshot->fd_)
        return Error::from_errno(name, errno);
    auto image = Image::open(std::move(fd), name, std::move(options));
    if (!image)
        return image.error();
    if (auto ok = snapshot->take(std::move(*image)); !ok)
        return ok.error();
    return snapshot;
}

Result<void> Snapshot::take(std::unique_ptr<Image> image)
{
    if (image->header().role == Role::tree) {
        tree_ = true;
        return read_tree(*image);
    }
    if (directory_)
        return damaged(path_ + "/" + kTreeFile + ": is an image of a process, not of a tree");
    SnapshotMember only{
        .place = image->place(), .id = image->header().id, .checksum = image->footer().checksum};
    auto ok = image->records([&](const RecordView &view) -> Result<void> {
        Process p;
        Foreign foreign;
        if (view.type == Process::type && decode(view.payload, p)) {
            only.pid = p.pid;
            only.ppid = p.ppid;
            only.pgid = p.pgid;
            only.sid = p.sid;
            only.comm = p.comm;
        } else if (view.type == Foreign::type && decode(view.payload, foreign)) {
            maker_ = foreign.backend;
        } else if (view.type == Process::type || view.type == Foreign::type) {
            return damaged(fmt::format("{}: {} is too short", path_, describe(view.type)));
        }
        return {};
    });
    if (!ok)
        return ok;
    root_pid_ = only.pid;
    members_.push_back(std::move(only));
    only_ = std::move(image);
    return {};
}

Result<void> Snapshot::read_tree(Image &tree)
{
    uint32_t expected = 0;
    bool seen = false;
    bool as_directory = false;
    auto ok = tree.for_each<Tree>([&](const Tree &t) {
        seen = true;
        scope_ = t.scope;
        root_pid_ = t.root_pid;
        expected = t.members;
        as_directory = t.directory;
    });
    if (!ok)
        return ok;
    if (!seen || expected > kMaxMembers || as_directory != is_directory())
        return damaged(fmt::format("{}: is not a valid tree of images", tree.name()));
    ok = tree.for_each<Member>([&](const Member &m) {
        if (members_.size() > expected) // one too many is enough to know
            return;
        members_.push_back({.name = std::string(m.name),
                            .place = {m.offset, m.length},
                            .id = Digest::from_bytes(m.image_id),
                            .checksum = Digest::from_bytes(m.checksum),
                            .state = m.state,
                            .pid = m.pid,
                            .ppid = m.ppid,
                            .pgid = m.pgid,
                            .sid = m.sid,
                            .wait_status = m.wait_status,
                            .comm = std::string(m.comm)});
    });
    if (!ok)
        return ok;
    if (members_.size() != expected)
        return damaged(
            fmt::format("{}: states a number of members that it does not have", tree.name()));
    return check_places(tree);
}

// In an archive the members lie one after the other and fill it up to the tree image; in a
// directory they are named by a plain file name.
Result<void> Snapshot::check_places(const Image &tree) const
{
    uint64_t end = 0;
    for (const SnapshotMember &m : members_) {
        if (m.state != MemberState::saved)
            continue;
        if (directory_) {
            if (m.name.empty() || m.name[0] == '.' || m.name.find('/') != std::string::npos ||
                m.name.find('\0') != std::string::npos)
                return damaged(
                    fmt::format("{}: pid {} has an impossible file name", tree.name(), m.pid));
            continue;
        }
        if (m.place.offset != end || m.place.length > tree.place().offset - end)
            return damaged(fmt::format("{}: the image of pid {} is not where it should be",
                                       tree.name(), m.pid));
        end = m.place.end();
    }
    if (!directory_ && end != tree.place().offset)
        return damaged(fmt::format("{}: has bytes that belong to no member", tree.name()));
    return {};
}

Result<std::unique_ptr<Image>> Snapshot::open_in_directory(const std::string &name) const
{
    const std::string path = directory_->path(name);
    Fd fd(openat(directory_->fd(), name.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!fd && errno == ELOOP)
        return Error(ELOOP, path + ": is a symbolic link, and no image");
    if (!fd)
        return Error::from_errno(path, errno);
    return Image::open(std::move(fd), path, options_);
}

// A fork's image may be based on its parent's, which comes before it.
Result<void> Snapshot::find_base_of(Image &image, unsigned below) const
{
    for (const SnapshotMember &member : members_) {
        if (member.id == image.header().id)
            break;
        if (member.id != image.header().base_id || member.state != MemberState::saved)
            continue;
        if (auto known = bases_[member.id].lock())
            return image.take_base(std::move(known));
        if (below == kMaxDeltaDepth)
            return Error(ELOOP, fmt::format("{}: more than {} images are based on each other in a "
                                            "row",
                                            path_, below));
        auto opened = open_member(member, below + 1);
        if (!opened)
            return opened.error();
        const std::shared_ptr<Image> base = std::move(*opened);
        bases_[member.id] = base;
        return image.take_base(base);
    }
    return {};
}

Result<std::unique_ptr<Image>> Snapshot::open_member(const SnapshotMember &member,
                                                     unsigned below) const
{
    if (member.state != MemberState::saved)
        return Error(ENOENT, fmt::format("{}: pid {} has no image ({})", path_, member.pid,
                                         name_of(member.state)));
    if (only_)
        return std::move(only_);
    OpenOptions options = options_;
    std::string path = path_;
    if (directory_)
        path = directory_->path(member.name);
    else
        options.member = member.place;
    auto image = directory_ ? open_in_directory(member.name)
                 : fd_      ? Image::open(Fd(fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0)), path, options)
                            : Image::open(path, options);
    if (!image)
        return image;
    if ((*image)->header().id != member.id || (*image)->footer().checksum != member.checksum)
        return Error(ESTALE, fmt::format("{}: is not the image of pid {} that the tree names", path,
                                         member.pid));
    if ((*image)->header().is_delta())
        if (auto found = find_base_of(**image, below); !found)
            return found.error();
    return image;
}

} // namespace cryo::image
