// SPDX-License-Identifier: Apache-2.0
// The subcommands that use a service directory: add, restore, merge, prune.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/print.hpp"
#include "base/trust.hpp"
#include "cli/progress.hpp"
#include "verbs.hpp"

namespace cryo::delta {

using namespace cryo::cli;
using namespace cryo::image;

namespace {

Settings settings_of(const Options &options, const Settings &before)
{
    Settings s = before;
    s.policy.mode = options.mode.value_or(s.policy.mode);
    if (options.threshold)
        s.policy.threshold = uint32_t(std::lround(*options.threshold * 1000));
    s.policy.most_images = options.most_images.value_or(s.policy.most_images);
    s.block_size = options.block_size.value_or(s.block_size);
    s.package_blocks = options.package_blocks.value_or(s.package_blocks);
    s.packing = options.packing.value_or(s.packing);
    return s;
}

// Fails early, rather than after most of the file has been written.
Result<void> check_space(const std::string &path, uint64_t size)
{
    auto directory = std::filesystem::path(path).parent_path();
    struct statvfs st;
    if (statvfs(directory.empty() ? "." : directory.c_str(), &st))
        return {}; // creating the file will say why
    uint64_t left = uint64_t(st.f_bavail) * st.f_frsize;
    if (size <= left)
        return {};
    return Error(ENOSPC, fmt::format("{}: needs {}, and {} are free there", path, size_text(size),
                                     size_text(left)));
}

// Setuid and setgid bits are only restored from images of trusted owners.
bool is_trusted(Version &version)
{
    const Trust trust;
    auto chain = version.image().chain();
    return chain && std::ranges::all_of(*chain, [&](const Image *image) {
               return bool(trust.check(image->fd(), image->name()));
           });
}

// An image that the version needs is never replaced by its contents.
Result<void> check_output(const std::string &output, Version &version, bool has_base_file)
{
    struct stat there, own;
    if (stat(output.c_str(), &there) != 0)
        return {};
    std::vector<Image *> needed = {&version.image()};
    if (!has_base_file) {
        auto chain = version.image().chain();
        if (!chain)
            return chain.error();
        needed = std::move(*chain);
    }
    for (const Image *image : needed) {
        if (fstat(image->fd(), &own) == 0 && own.st_dev == there.st_dev &&
            own.st_ino == there.st_ino)
            return Error(EEXIST, output + ": is an image that this version needs; choose another "
                                          "name");
    }
    return {};
}

Result<void> write_there(const Options &options, Version &version, ByteSource *base_file)
{
    const About &about = version.about();
    ProgressLine line(options.output, !options.quiet);
    if (options.output == "-") {
        StreamSink sink(Fd(dup(STDOUT_FILENO)), "standard output");
        return write_contents(version, base_file, sink, line.reporter());
    }
    if (auto ok = check_output(options.output, version, base_file != nullptr); !ok)
        return ok;
    if (auto ok = check_space(options.output, about.size); !ok)
        return ok;
    auto sink = FileSink::create(options.output,
                                 {.existing = options.force ? Existing::replace : Existing::refuse,
                                  .mode = is_trusted(version) ? about.mode : about.mode & 0777});
    if (!sink)
        return sink.error();
    return write_contents(version, base_file, **sink, line.reporter());
}

} // namespace

Result<void> write_output(const Options &options, Version &version, ByteSource *base_file)
{
    const About &about = version.about();
    if (auto ok = write_there(options, version, base_file); !ok)
        return ok;
    if (options.output == "-" || options.quiet)
        return {};
    if (options.json)
        print_json(options, {{"restored", json_of(about)}, {"file", options.output}});
    else
        cryo::print("{}: {}{} of {}\n", printable(options.output),
                    about.number ? fmt::format("version {}, ", about.number) : "",
                    size_text(about.size), printable(about.name));
    return {};
}

Result<void> add(const Options &options)
{
    auto service = Service::open(options.service, Service::Use::create);
    if (!service)
        return service.error();
    ProgressLine line(options.arguments[0], !options.quiet);
    auto added = (*service)->add({.file = options.arguments[0],
                                  .image = options.output,
                                  .replace = options.force,
                                  .complete = options.complete,
                                  .settings = settings_of(options, (*service)->state().settings)},
                                 line.reporter());
    if (!added)
        return added.error();
    if (options.json)
        print_json(options, {{"version", json_of(*added)}});
    else if (!options.quiet)
        cryo::print("version {}: {}, {} in {}\n", added->number, words_of(*added),
                    size_text(added->stored), printable(added->path));
    return {};
}

Result<void> restore(const Options &options)
{
    std::unique_ptr<Service> service;
    std::string path = options.arguments[0];
    Finder finder{.named = options.bases};
    if (!options.service.empty()) {
        auto opened = Service::open(options.service, Service::Use::read);
        if (!opened)
            return opened.error();
        service = std::move(*opened);
        auto entry = service->find(path);
        if (!entry)
            return entry.error();
        if (access(path.c_str(), F_OK))
            path = entry->path;
        finder = service->finder(options.bases);
    }
    auto version = finder.open_whole(path);
    if (!version)
        return version.error();
    const About &about = (*version)->about();
    if (about.base == DeltaBase::file)
        return Error(EINVAL, path + ": is based on a plain file; use cr_delta apply --base FILE");
    return write_output(options, **version, nullptr);
}

Result<void> merge(const Options &options)
{
    auto service = Service::open(options.service, Service::Use::write);
    if (!service)
        return service.error();
    auto entry = (*service)->find(options.arguments[0]);
    if (!entry)
        return entry.error();
    ProgressLine line(options.arguments[0], !options.quiet);
    auto merged = (*service)->merge({.number = entry->number,
                                     .image = options.output,
                                     .onto = options.onto,
                                     .replace = options.force},
                                    line.reporter());
    if (!merged)
        return merged.error();
    if (options.json)
        print_json(options, {{"version", json_of(*merged)}});
    else if (!options.quiet)
        cryo::print("version {}: {}, {} in {}\n", merged->number, words_of(*merged),
                    size_text(merged->stored), printable(merged->path));
    return {};
}

Result<void> prune(const Options &options)
{
    auto service = Service::open(options.service, Service::Use::write);
    if (!service)
        return service.error();
    auto pruned =
        (*service)->prune({.keep = options.keep, .every = options.every}, options.dry_run);
    if (!pruned)
        return pruned.error();
    if (options.json) {
        Json removed = Json::array();
        Json needed = Json::array();
        for (const Entry &e : pruned->removed)
            removed.push_back(json_of(e));
        for (const Entry &e : pruned->needed)
            needed.push_back(json_of(e));
        print_json(options, {{"dry_run", options.dry_run},
                             {"removed", std::move(removed)},
                             {"needed", std::move(needed)}});
    } else if (!options.quiet) {
        for (const Entry &e : pruned->removed)
            cryo::print("{} version {}, {}\n", options.dry_run ? "would remove" : "removed",
                        e.number, printable(e.path));
        for (const Entry &e : pruned->needed)
            cryo::print("stays: version {}, {}: others are based on it\n", e.number,
                        printable(e.path));
    }
    return {};
}

} // namespace cryo::delta
