// SPDX-License-Identifier: Apache-2.0
#include "survey/shelf.hpp"

#include "base/trust.hpp"
#include "cli/text.hpp"
#include "coord/snapshot.hpp"
#include "image/base_finder.hpp"
#include "image/verify_needed.hpp"
#include "survey/words.hpp"

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <fmt/format.h>
#include <map>
#include <sys/stat.h>

namespace cryo::survey {

namespace {

int64_t nanoseconds_of(const timespec &time)
{
    return time.tv_sec * int64_t(1'000'000'000) + time.tv_nsec;
}

void take_times(image::Image &image, Stored &one)
{
    one.taken_ns = image.header().created;
    static_cast<void>(image.for_each<image::ImageInfo>(
        [&](const image::ImageInfo &info) { one.stopped_ns = info.stopped_ns; }));
}

void take_program(image::Image &image, Stored &one)
{
    std::string exe;
    std::map<uint32_t, std::string> parts;
    static_cast<void>(
        image.for_each<image::Process>([&](const image::Process &p) { exe = p.exe; }));
    static_cast<void>(image.for_each<image::Args>([&](const image::Args &args) {
        parts[args.part].assign(args.data.begin(), args.data.end());
    }));
    std::string joined;
    for (const auto &[number, part] : parts)
        joined += part;
    one.program = words_of(joined);
    if (one.program.empty())
        one.program = exe;
}

// Of what is open. `needs`: the files in which it lies, its own first.
void look_into(const image::Snapshot &snapshot, Stored &one, std::vector<image::FileId> &needs)
{
    one.pid = static_cast<pid_t>(snapshot.root_pid());
    one.kind = snapshot.is_directory() ? Kind::directory
               : snapshot.is_plain()   ? Kind::image
                                       : Kind::archive;
    bool first = true;
    image::NeededFiles found = image::needed_files(
        snapshot, [&](const image::SnapshotMember &member, image::Image &image) {
            one.processes++;
            one.delta = one.delta || image.header().is_delta_of_earlier();
            if (image.header().role == image::Role::file)
                one.kind = Kind::file;
            if (first || member.pid == snapshot.root_pid()) {
                take_times(image, one);
                take_program(image, one);
            }
            first = false;
        });
    needs = std::move(found.files);
    if (one.kind != Kind::file) // cr_delta alone knows on what a version of a file may be based
        one.broken = std::move(found.broken);
}

Result<Fd> open_file(const Directory &directory, const std::string &name)
{
    Fd fd(openat(directory.fd(), name.c_str(),
                 O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
    if (!fd)
        return Error::from_errno(directory.path(name), errno);
    struct stat status = {};
    if (fstat(fd.get(), &status) != 0)
        return Error::from_errno(directory.path(name), errno);
    if (!S_ISREG(status.st_mode))
        return Error(EINVAL, directory.path(name) + ": is no regular file");
    return fd;
}

struct Looked {
    Stored stored;
    std::vector<image::FileId> needs = {};
};

// Nothing: it is no image. Of a damaged one only the file is known.
std::optional<Looked> look_at_file(const Directory &directory, const std::string &name)
{
    const Result<std::optional<image::Digest>> id = image::look_for_id(directory, name);
    Result<Fd> file = id && *id ? open_file(directory, name) : Error(ENOENT, "no image");
    struct stat status = {};
    if (!file || fstat(file->get(), &status) != 0)
        return {};
    Looked one;
    one.stored.name = name;
    one.stored.bytes = static_cast<uint64_t>(status.st_size);
    one.stored.taken_ns = nanoseconds_of(status.st_mtim);
    one.stored.id = {status.st_dev, status.st_ino};
    one.stored.owner = status.st_uid;
    one.stored.names = status.st_nlink;
    const image::BaseFinder finder;
    const std::string path = directory.path(name);
    const Result<std::unique_ptr<image::Snapshot>> snapshot =
        image::Snapshot::open(std::move(*file), path, {.find_base = finder.beside(path)});
    if (snapshot)
        look_into(**snapshot, one.stored, one.needs);
    else
        one.stored.broken = snapshot.error();
    return one;
}

uint64_t bytes_in(const Directory &directory)
{
    uint64_t bytes = 0;
    const Result<std::vector<std::string>> names = directory.names();
    for (const std::string &name : names ? *names : std::vector<std::string>()) {
        const Result<std::optional<struct stat>> status = directory.look(name);
        if (status && *status && S_ISREG((*status)->st_mode))
            bytes += static_cast<uint64_t>((*status)->st_size);
    }
    return bytes;
}

std::optional<Looked> look_at_tree(const Directory &directory, const std::string &name)
{
    const Result<Directory> inner = directory.enter(name);
    const Result<std::optional<struct stat>> tree =
        inner ? inner->look(image::kTreeFile) : inner.error();
    if (!tree || !*tree)
        return {};
    Looked one;
    one.stored.name = name;
    one.stored.kind = Kind::directory;
    one.stored.bytes = bytes_in(*inner);
    one.stored.taken_ns = nanoseconds_of((*tree)->st_mtim);
    const std::string path = directory.path(name);
    const image::BaseFinder finder;
    const Result<std::unique_ptr<image::Snapshot>> snapshot =
        image::Snapshot::open(path, {.find_base = finder.beside(path)});
    if (snapshot)
        look_into(**snapshot, one.stored, one.needs);
    else
        one.stored.broken = snapshot.error();
    return one;
}

// Snapshots of an MPI job, one after the other.
std::vector<Looked> look_at_job(const Directory &directory, const std::string &name)
{
    std::vector<Looked> all;
    const Result<coord::SnapshotStore> store = coord::SnapshotStore::open(directory.path(name));
    if (!store)
        return all;
    for (const auto &[seq, snapshot] : store->snapshots()) {
        if (!snapshot.finished)
            continue;
        Stored one = {.name = fmt::format("{}/{}", name, seq), .kind = Kind::job};
        for (const std::string &word : snapshot.command)
            one.program += (one.program.empty() ? "" : " ") + word;
        one.pid = snapshot.launcher;
        one.processes = snapshot.ranks();
        one.bytes = snapshot.bytes();
        const Result<std::optional<struct stat>> status =
            store->directory().look(std::to_string(seq));
        if (status && *status)
            one.taken_ns = nanoseconds_of((*status)->st_mtim);
        if (const Result<void> good = store->check(snapshot, Trust()); !good)
            one.broken = good.error();
        all.push_back({std::move(one), {}});
    }
    return all;
}

// A second name of a file that is known, as `latest` is, adds no image.
bool is_further_name(std::vector<Looked> &all, const Looked &one)
{
    const auto same = std::ranges::find_if(all, [&](const Looked &other) {
        return other.stored.names > 0 && other.stored.id == one.stored.id;
    });
    if (same == all.end() || one.stored.names == 0)
        return false;
    same->stored.also.push_back(one.stored.name);
    return true;
}

void name_bases(std::vector<Looked> &all)
{
    for (Looked &one : all) {
        for (const image::FileId &file : one.needs) {
            const auto base = std::ranges::find_if(all, [&](const Looked &other) {
                return other.stored.names > 0 && other.stored.id == file &&
                       other.stored.name != one.stored.name;
            });
            if (base != all.end())
                one.stored.based_on.push_back(base->stored.name);
        }
    }
}

Error not_a_shelf(const std::string &path)
{
    return {EINVAL, path + ": is a snapshot of several processes itself; name the directory in "
                           "which it is"};
}

} // namespace

const char *name_of(Kind kind)
{
    switch (kind) {
    case Kind::image:
        return "image";
    case Kind::archive:
        return "archive";
    case Kind::directory:
        return "directory";
    case Kind::file:
        return "file";
    case Kind::job:
        break;
    }
    return "job";
}

uint64_t Shelf::bytes() const
{
    uint64_t all = 0;
    for (const Stored &one : images)
        all += one.bytes;
    return all;
}

Result<Shelf> look_at_shelf(const std::string &path)
{
    const Result<Directory> directory = Directory::open(path);
    if (!directory)
        return directory.error();
    Result<std::vector<std::string>> names = directory->names();
    if (!names)
        return names.error();
    const Result<std::optional<struct stat>> tree = directory->look(image::kTreeFile);
    if ((tree && *tree) || coord::SnapshotStore::open(path))
        return not_a_shelf(path);
    std::ranges::sort(*names);
    std::vector<Looked> all;
    for (const std::string &name : *names) {
        const Result<std::optional<struct stat>> status = directory->look(name);
        // Hidden files are being written, or were when their writer was killed.
        if (name.starts_with('.') || !status || !*status)
            continue;
        if (S_ISDIR((*status)->st_mode)) {
            if (std::optional<Looked> found = look_at_tree(*directory, name))
                all.push_back(std::move(*found));
            std::ranges::move(look_at_job(*directory, name), std::back_inserter(all));
        } else if (S_ISREG((*status)->st_mode)) {
            std::optional<Looked> found = look_at_file(*directory, name);
            if (found && !is_further_name(all, *found))
                all.push_back(std::move(*found));
        }
    }
    name_bases(all);
    Shelf shelf = {.directory = path, .images = {}};
    std::ranges::stable_sort(all, {}, [](const Looked &one) { return one.stored.taken_ns; });
    for (Looked &one : all)
        shelf.images.push_back(std::move(one.stored));
    return shelf;
}

Result<Stored> look_at_image(const std::string &path)
{
    const auto [parent, name] = split_path(path);
    const Result<Directory> directory = Directory::open(parent);
    if (!directory)
        return directory.error();
    std::optional<Looked> found = look_at_file(*directory, name);
    if (!found)
        return Error(ENOENT, path + ": is no image");
    return std::move(found->stored);
}

Result<void> read_whole(const Directory &directory, const std::string &name)
{
    Result<Fd> file = open_file(directory, name);
    if (!file)
        return file.error();
    const image::BaseFinder finder;
    const std::string path = directory.path(name);
    const Result<std::unique_ptr<image::Snapshot>> snapshot =
        image::Snapshot::open(std::move(*file), path, {.find_base = finder.beside(path)});
    return snapshot ? image::verify_needed(**snapshot) : snapshot.error();
}

} // namespace cryo::survey
