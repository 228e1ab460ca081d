// SPDX-License-Identifier: Apache-2.0
#include "backend/outline.hpp"

#include "base/clock.hpp"
#include "image/records.hpp"
#include "look/members.hpp"
#include "look/proc.hpp"

#include <algorithm>
#include <pwd.h>
#include <sys/utsname.h>
#include <time.h>

namespace cryo::backend {

namespace {

using capture::field;
using capture::Proc;
using capture::take_number;

template <class R>
Result<void> write_parts(image::ImageWriter &writer, const std::string &text)
{
    constexpr size_t part = image::kMaxRecord / 2;
    R record;
    for (size_t at = 0; at < text.size() || record.part == 0; at += part, record.part++) {
        record.data = image::as_bytes(std::string_view(text).substr(at, part));
        if (Result<void> added = writer.add(record); !added)
            return added;
    }
    return {};
}

} // namespace

Result<Outline> Outline::of(pid_t pid)
{
    const Proc proc(pid);
    const Result<capture::Relation> relation = capture::relation_of(pid);
    if (!relation)
        return relation.error();
    const Result<std::string> status = proc.read("status");
    if (!status)
        return status.error();
    Outline o;
    o.begun_realtime = clock_ns(CLOCK_REALTIME);
    o.begun_monotonic = clock_ns(CLOCK_MONOTONIC);
    std::string_view inner = field(*status, "NSpid");
    while (!inner.empty())
        o.pid = static_cast<pid_t>(take_number(inner));
    o.ppid = relation->ppid;
    o.pgid = relation->pgid;
    o.sid = relation->sid;
    o.comm = relation->comm;
    std::string_view uids = field(*status, "Uid"), gids = field(*status, "Gid");
    o.uid = static_cast<uint32_t>(take_number(uids));
    o.euid = static_cast<uint32_t>(take_number(uids));
    o.gid = static_cast<uint32_t>(take_number(gids));
    o.egid = static_cast<uint32_t>(take_number(gids));
    std::string_view mask = field(*status, "Umask"), threads = field(*status, "Threads");
    o.umask = static_cast<uint32_t>(take_number(mask, 8));
    o.threads = take_number(threads);
    for (const auto &[name, to] : {std::pair("exe", &o.exe), std::pair("cwd", &o.cwd)}) {
        Result<std::string> link = proc.link(name);
        if (!link)
            return link.error();
        *to = std::move(*link);
    }
    for (const auto &[name, to] :
         {std::pair("cmdline", &o.arguments), std::pair("environ", &o.environment)}) {
        Result<std::string> text = proc.read(name);
        if (!text)
            return text.error();
        *to = std::move(*text);
    }
    return o;
}

Result<void> Outline::write(image::ImageWriter &writer, std::string_view backend,
                            std::string_view snapshot, uint64_t stopped_ns) const
{
    utsname system = {};
    uname(&system);
    const passwd *user = getpwuid(uid);
    image::ImageInfo info;
    info.host = system.nodename;
    info.kernel = system.version;
    info.user = user != nullptr ? user->pw_name : "";
    info.backend = backend;
    info.snapshot = snapshot;
    info.started = begun_realtime;
    info.stopped_ns = stopped_ns;
    info.total_ns = static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC) - begun_monotonic);
    image::Process process;
    process.pid = static_cast<uint32_t>(pid);
    process.ppid = static_cast<uint32_t>(ppid);
    process.pgid = static_cast<uint32_t>(pgid);
    process.sid = static_cast<uint32_t>(sid);
    process.uid = process.suid = process.fsuid = uid;
    process.euid = euid;
    process.gid = process.sgid = process.fsgid = gid;
    process.egid = egid;
    process.comm = comm;
    process.exe = exe;
    process.cwd = cwd;
    process.umask = umask;
    process.dumpable = 1; // with another value older readers refuse the image
    process.cut_realtime = begun_realtime;
    process.cut_monotonic = begun_monotonic;
    Result<void> added = writer.add(info);
    if (added)
        added = writer.add(process);
    if (added)
        added = write_parts<image::Args>(writer, arguments);
    if (added)
        added = write_parts<image::Environ>(writer, environment);
    return added;
}

} // namespace cryo::backend
