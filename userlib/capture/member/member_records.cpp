// SPDX-License-Identifier: Apache-2.0
#include "capture/member/member_records.hpp"

#include "base/clock.hpp"
#include "look/identity.hpp"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <pwd.h>
#include <set>
#include <sys/stat.h>
#include <sys/utsname.h>

namespace cryo::capture {

namespace {

// argv and the environment may exceed the size of one record.
Result<void> write_parts(image::ImageWriter &writer, const Description &d)
{
    constexpr size_t part_size = 64 * 1024;
    const auto split = [&]<class R>(const std::string &whole) -> Result<void> {
        R record;
        std::string_view rest = whole;
        do {
            record.data = image::as_bytes(rest.substr(0, part_size));
            if (Result<void> added = writer.add(record); !added)
                return added;
            rest.remove_prefix(std::min(part_size, rest.size()));
            record.part++;
        } while (!rest.empty());
        return {};
    };
    if (Result<void> added = split.operator()<image::Args>(d.arguments); !added)
        return added;
    if (Result<void> added = split.operator()<image::Environ>(d.environment); !added)
        return added;
    image::Auxv auxv;
    auxv.pairs = image::List<uint64_t>::of(d.auxv);
    return writer.add(auxv);
}

} // namespace

Result<void> identify_files(Description &d)
{
    for (uint32_t id : d.mapped_files) {
        image::File &file = d.files.files()[id - 1];
        if (!file.build_id.empty() || !file.content_hash.empty())
            continue; // another member has it mapped too
        Result<Identity> identity = identify(std::string(file.path));
        if (!identity)
            return identity.error().within("a mapped file");
        // The file is read after the program has resumed: it must still be what the program had.
        struct stat now;
        if (stat(std::string(file.path).c_str(), &now) != 0 || now.st_ino != file.inode ||
            static_cast<uint64_t>(now.st_size) != file.size ||
            now.st_mtim.tv_sec * 1'000'000'000LL + now.st_mtim.tv_nsec != file.modified)
            return Error(EBUSY, fmt::format("the mapped file {} was changed during the checkpoint; "
                                            "try again",
                                            file.path));
        file.size = identity->size;
        const auto keep = [&](const auto &bytes) {
            return image::as_bytes(d.strings.keep(std::string(bytes.begin(), bytes.end())));
        };
        if (!identity->build_id.empty())
            file.build_id = keep(identity->build_id);
        else
            file.content_hash = keep(identity->content_hash);
    }
    return {};
}

Result<void> write_records(image::ImageWriter &writer, Description &d, size_t number,
                           const ImageFacts &facts)
{
    utsname system = {};
    uname(&system);
    const passwd *user = getpwuid(d.process.uid);
    image::ImageInfo info;
    info.host = system.nodename;
    info.kernel = system.version;
    info.user = user != nullptr ? user->pw_name : "";
    info.backend = facts.backend;
    info.snapshot = facts.snapshot;
    info.started = d.process.cut_realtime;
    const uint64_t now = now_ns();
    info.stopped_ns = facts.stopped_ns != 0 ? facts.stopped_ns : now - facts.stop_begun_ns;
    info.total_ns = now - facts.begun_ns;
    std::string boot_id;
    if (Result<std::string> id = d.proc.read("../sys/kernel/random/boot_id"); id) {
        boot_id = id->substr(0, id->find('\n'));
        info.boot_id = boot_id;
    }
    std::set<uint32_t> mapped;
    for (const image::Region &region : d.regions) {
        if (region.file != 0)
            mapped.insert(region.file);
    }
    Result<void> added = writer.add(info);
    const auto one = [&](const auto &record) {
        if (added)
            added = writer.add(record);
    };
    const auto all = [&](const auto &records) {
        for (const auto &record : records)
            one(record);
    };
    one(d.process);
    one(d.memory);
    one(d.agent);
    one(d.cpu);
    if (added)
        added = write_parts(writer, d);
    all(d.threads);
    all(d.call_filters);
    all(d.thread_filters);
    all(d.regions);
    all(d.guards);
    all(d.aio_contexts);
    if (added)
        added = d.files.write_records(writer, number, mapped);
    if (added && number == 0)
        added = d.ipc.write_records(writer);
    all(d.actions);
    all(d.pending);
    all(d.timers);
    all(d.limits);
    return added;
}

} // namespace cryo::capture
