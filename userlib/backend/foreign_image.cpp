// SPDX-License-Identifier: Apache-2.0
#include "backend/foreign_image.hpp"

#include "image/records.hpp"
#include "image/sink.hpp"
#include "look/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/stat.h>

namespace cryo::backend {

namespace {

namespace fs = std::filesystem;
constexpr uint64_t page = image::kPageSize;
constexpr uint64_t part = 1 << 20;

Result<std::unique_ptr<image::Sink>> open_sink(const capture::CheckpointOptions &options)
{
    if (options.fd >= 0) {
        Fd own(fcntl(options.fd, F_DUPFD_CLOEXEC, 3));
        if (!own || (fcntl(own.get(), F_GETFL) & O_ACCMODE) == O_RDONLY)
            return Error(EBADF, options.file + ": is not open for writing");
        return std::unique_ptr<image::Sink>(
            std::make_unique<image::StreamSink>(std::move(own), options.file, options.sync));
    }
    image::FileOptions file;
    file.existing = options.existing;
    file.backup = options.backup;
    file.sync = options.sync;
    return image::FileSink::create(options.file, file);
}

std::string joined(const std::vector<std::string> &words)
{
    std::string all;
    for (const std::string &word : words)
        all += word + '\0';
    return all;
}

// A name that cannot lead out of the directory.
bool is_plain_name(std::string_view name)
{
    return !name.empty() && name.front() != '.' && name.size() <= NAME_MAX &&
           name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

Result<size_t> read_whole(int fd, uint64_t at, image::MutableBytes to)
{
    size_t done = 0;
    while (done < to.size()) {
        const ssize_t n =
            pread(fd, to.data() + done, to.size() - done, static_cast<off_t>(at + done));
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return Error::from_errno("reading", errno);
        if (n == 0)
            break;
        done += static_cast<size_t>(n);
    }
    return done;
}

struct Attached {
    std::string name;
    uint32_t object;
    uint64_t size;
};

Result<void> write_out(image::Image &image, const Attached &file, int to)
{
    std::vector<uint8_t> buffer(part);
    if (ftruncate(to, static_cast<off_t>(file.size)) != 0)
        return Error::from_errno("making it as long as it was", errno);
    for (uint64_t at = 0; at < file.size;) {
        const Result<image::Run> run = image.find(file.object, at / page);
        if (!run)
            return run.error();
        const bool zeros = run->hole || run->kind == image::ExtentKind::zero;
        const uint64_t length = std::min(run->count, file.size / page + 1) * page;
        if (zeros) {
            at += length;
            continue;
        }
        const uint64_t size = std::min({length, part, file.size - at});
        const image::MutableBytes bytes =
            image::MutableBytes(buffer).first((size + page - 1) / page * page);
        if (Result<void> read = image.read_pages(file.object, at / page, bytes); !read)
            return read;
        for (uint64_t done = 0; done < size;) {
            const ssize_t n =
                pwrite(to, bytes.data() + done, size - done, static_cast<off_t>(at + done));
            if (n < 0)
                return Error::from_errno("writing", errno);
            done += static_cast<uint64_t>(n);
        }
        at += size;
    }
    return {};
}

} // namespace

Result<ForeignImage> ForeignImage::begin(const capture::CheckpointOptions &options)
{
    Result<std::unique_ptr<image::Sink>> sink = open_sink(options);
    if (!sink)
        return sink.error();
    return ForeignImage(std::move(*sink), options.packing);
}

Result<void> ForeignImage::describe(const Outline &outline, const Maker &maker,
                                    std::string_view snapshot, uint64_t stopped_ns)
{
    backend_ = maker.backend;
    // Not earlier: the writer has threads, and processes may have been forked before.
    image::WriterOptions writing;
    writing.packing = packing_;
    Result<std::unique_ptr<image::ImageWriter>> writer =
        image::ImageWriter::create(std::move(sink_), writing);
    if (!writer)
        return writer.error();
    writer_ = std::move(*writer);
    const std::string options = joined(maker.options);
    image::Foreign foreign;
    foreign.backend = maker.backend;
    foreign.tool = maker.tool;
    foreign.options = image::as_bytes(options);
    foreign.pids = image::List<uint32_t>::of(maker.pids);
    if (Result<void> added = writer_->add(foreign); !added)
        return added;
    return outline.write(*writer_, maker.backend, snapshot, stopped_ns);
}

Result<void> ForeignImage::attach(const std::string &name, int fd)
{
    struct stat status;
    if (fstat(fd, &status) != 0)
        return Error::from_errno(name, errno);
    image::Object object;
    object.id = ++objects_;
    object.kind = image::ObjectKind::attachment;
    object.size = static_cast<uint64_t>(status.st_size);
    object.name = name;
    image::Attachment attachment;
    attachment.name = name;
    attachment.object = object.id;
    attachment.size = object.size;
    attachment.mode = status.st_mode & 07777;
    attachment.format = backend_;
    Result<void> added = writer_->add(object);
    if (added)
        added = writer_->add(attachment);
    if (!added)
        return added;
    for (uint64_t at = 0; at < object.size;) {
        const uint64_t left = (object.size - at + page - 1) / page;
        Result<image::MutableBytes> space = writer_->page_space(std::min(left, part / page));
        if (!space)
            return space.error();
        const Result<size_t> got = read_whole(fd, at, *space);
        if (!got)
            return got.error().within(name);
        if (*got < std::min<uint64_t>(space->size(), object.size - at))
            return Error(EIO, name + ": has become shorter");
        std::fill(space->begin() + static_cast<ptrdiff_t>(*got), space->end(), uint8_t(0));
        if (Result<void> taken = writer_->take_pages(object.id, at / page, space->size() / page);
            !taken)
            return taken;
        at += space->size();
    }
    return {};
}

Result<void> ForeignImage::attach_all(const std::string &directory)
{
    std::error_code error;
    std::set<std::string> names; // in an order independent of the file system
    for (const fs::directory_entry &entry : fs::directory_iterator(directory, error)) {
        if (entry.is_regular_file(error))
            names.insert(entry.path().filename().string());
    }
    if (error)
        return Error::from_errno(directory, error.value());
    for (const std::string &name : names) {
        const std::string path = fmt::format("{}/{}", directory, name);
        const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
        if (!fd)
            return Error::from_errno(path, errno);
        if (Result<void> attached = attach(name, fd.get()); !attached)
            return attached;
    }
    return {};
}

Result<Maker> maker_of(image::Image &image)
{
    Maker maker;
    Result<void> read = image.for_each<image::Foreign>([&](const image::Foreign &foreign) {
        maker.backend = foreign.backend;
        maker.tool = foreign.tool;
        std::string_view words = image::as_text(foreign.options);
        while (!words.empty()) {
            const size_t end = std::min(words.find('\0'), words.size());
            maker.options.emplace_back(words.substr(0, end));
            words.remove_prefix(std::min(end + 1, words.size()));
        }
        for (size_t i = 0; i < foreign.pids.size(); i++)
            maker.pids.push_back(foreign.pids[i]);
    });
    if (!read)
        return read.error();
    return maker;
}

Result<uint64_t> unpack(image::Image &image, const std::string &directory)
{
    std::vector<Attached> files;
    Result<void> read = image.for_each<image::Attachment>([&](const image::Attachment &one) {
        files.push_back({std::string(one.name), one.object, one.size});
    });
    if (!read)
        return read.error();
    uint64_t bytes = 0;
    for (const Attached &file : files) {
        if (!is_plain_name(file.name))
            return image::damaged(image.name() + ": an attached file has an impossible name");
        const std::string path = fmt::format("{}/{}", directory, file.name);
        const Fd to(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
        if (!to)
            return Error::from_errno(path, errno);
        if (Result<void> written = write_out(image, file, to.get()); !written)
            return written.error().within(path);
        bytes += file.size;
    }
    return bytes;
}

} // namespace cryo::backend
