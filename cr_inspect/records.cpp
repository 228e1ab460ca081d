// SPDX-License-Identifier: Apache-2.0
#include "fields.hpp"
#include "image/record_store.hpp"
#include "views.hpp"

namespace cryo::inspect {

using namespace cryo::image;

std::string label_of(const StoredRecord &record)
{
    std::string label;
    auto name = [&]<class R>(const R &r) {
        if constexpr (std::is_same_v<R, Thread>)
            label = fmt::format("thread {}", r.tid);
        else if constexpr (std::is_same_v<R, Region>)
            label = fmt::format("region {:x}", r.start);
        else if constexpr (std::is_same_v<R, File>)
            label = fmt::format("file {}", r.id);
        else if constexpr (std::is_same_v<R, OpenFile>)
            label = fmt::format("open file {}", r.id);
        else if constexpr (std::is_same_v<R, Descriptor>)
            label = fmt::format("fd {}", r.fd);
        else if constexpr (std::is_same_v<R, Sigaction>)
            label = fmt::format("signal {}", r.signal);
        else if constexpr (std::is_same_v<R, Timer>)
            label = fmt::format("timer {} {}", name_of(r.kind), r.id);
        else if constexpr (std::is_same_v<R, Rlimit>)
            label = fmt::format("limit {}", r.resource);
        else if constexpr (std::is_same_v<R, Object>)
            label = fmt::format("object {}", r.id);
        else if constexpr (std::is_same_v<R, Pipe>)
            label = fmt::format("pipe of file {}", r.file);
        else if constexpr (std::is_same_v<R, PosixQueue>)
            label = fmt::format("message queue of file {}", r.file);
        else if constexpr (HasKey<R> && requires { &R::open_file; })
            label = fmt::format("{} of open file {}", name_of(R::type), r.open_file);
        else if constexpr (std::is_same_v<R, SocketMore>)
            label = fmt::format("more of the socket of open file {}", r.socket);
        else if constexpr (std::is_same_v<R, GroupMember>)
            label = fmt::format("group of the socket of open file {}", r.socket);
        else if constexpr (std::is_same_v<R, PeerCredentials>)
            label = fmt::format("peer of the socket of open file {}", r.socket);
        else if constexpr (std::is_same_v<R, KeptConnection>)
            label = fmt::format("kept connection of open file {}", r.socket);
        else if constexpr (std::is_same_v<R, Passed>)
            label = fmt::format("descriptors in the socket of open file {}", r.socket);
        else if constexpr (std::is_same_v<R, Senders>)
            label = fmt::format("senders to the socket of open file {}", r.socket);
        else if constexpr (std::is_same_v<R, Connection>)
            label = fmt::format("connection of open files {} and {}", r.caller, r.accepted);
        else if constexpr (std::is_same_v<R, Waiting>)
            label = fmt::format("connections that wait at open file {}", r.listener);
        else if constexpr (std::is_same_v<R, EpollItem>)
            label = fmt::format("epoll {} fd {}", r.epoll, r.fd);
        else if constexpr (std::is_same_v<R, InotifyWatch>)
            label = fmt::format("inotify {} watch {}", r.open_file, r.watch);
        else if constexpr (std::is_same_v<R, Terminal>)
            label = fmt::format("terminal of file {}", r.file);
        else if constexpr (std::is_same_v<R, Attachment>)
            label = fmt::format("attachment {}", printable(r.name));
        else if constexpr (std::is_same_v<R, Member>)
            label = fmt::format("member {}", r.pid);
    };
    with_record_type(record.type, [&]<class R>() {
        R r;
        if (decode(record.payload, r))
            name(r);
    });
    if (!label.empty())
        return label;
    const char *type = name_of(record.type);
    return type ? type : fmt::format("type {}", static_cast<uint32_t>(record.type));
}

void show_records(const Entry &entry, const Output &out)
{
    out.print("{}\n", out.bold(printable(entry.name)));
    for (const StoredRecord &r : entry.about.records) {
        const char *type = name_of(r.type);
        out.print("  {} {} v{}, {} bytes{}\n", out.faint(fmt::format("{:#010x}", r.offset)),
                  type ? out.bold(type) : fmt::format("type {}", static_cast<uint32_t>(r.type)),
                  r.version, r.payload.size(), r.flags & kRequired ? "" : ", may be ignored");
        for (const Field &f : fields_of(r))
            if (!f.empty)
                out.print("      {} = {}\n", f.name, f.text);
    }
}

} // namespace cryo::inspect
