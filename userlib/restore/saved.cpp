// SPDX-License-Identifier: Apache-2.0
#include "restore/saved.hpp"

#include <cerrno>

namespace cryo::restore {

namespace {

using image::decode;

template <class R>
bool append(image::Bytes payload, std::vector<R> &to)
{
    return decode(payload, to.emplace_back());
}

template <class R>
bool put(image::Bytes payload, std::map<uint32_t, R> &to, uint32_t R::*key)
{
    R record;
    if (!decode(payload, record))
        return false;
    to[record.*key] = record;
    return true;
}

template <class R>
bool join(image::Bytes payload, std::string &to)
{
    R record;
    if (!decode(payload, record))
        return false;
    to += image::as_text(record.data);
    return true;
}

bool take(Saved &s, image::RecordType type, image::Bytes payload, bool &known)
{
    using image::RecordType;
    switch (type) {
    case RecordType::image_info:
    case RecordType::notice:
    case RecordType::object:
    case RecordType::page_digests:
    case RecordType::page_tracker:
        return true;
    case RecordType::process:
        return decode(payload, s.process);
    case RecordType::memory:
        return decode(payload, s.memory);
    case RecordType::agent:
        return decode(payload, s.agent);
    case RecordType::cpu:
        return decode(payload, s.cpu);
    case RecordType::args:
        return join<image::Args>(payload, s.arguments);
    case RecordType::environ:
        return join<image::Environ>(payload, s.environment);
    case RecordType::auxv: {
        image::Auxv auxv;
        if (!decode(payload, auxv))
            return false;
        for (size_t i = 0; i < auxv.pairs.size(); i++)
            s.auxv.push_back(auxv.pairs[i]);
        return true;
    }
    case RecordType::thread:
        return append(payload, s.threads);
    case RecordType::region:
        return append(payload, s.regions);
    case RecordType::guard:
        return append(payload, s.guards);
    case RecordType::aio_context:
        return append(payload, s.aio_contexts);
    case RecordType::file:
        return put(payload, s.files, &image::File::id);
    case RecordType::open_file:
        return put(payload, s.open_files, &image::OpenFile::id);
    case RecordType::descriptor:
        return append(payload, s.descriptors);
    case RecordType::pipe:
        return put(payload, s.pipes, &image::Pipe::file);
    case RecordType::eventfd:
        return append(payload, s.eventfds);
    case RecordType::signalfd:
        return append(payload, s.signalfds);
    case RecordType::pidfd:
        return put(payload, s.pidfds, &image::Pidfd::open_file);
    case RecordType::epoll_item:
        return append(payload, s.epoll_items);
    case RecordType::inotify_watch:
        return append(payload, s.watches);
    case RecordType::lock:
        return append(payload, s.locks);
    case RecordType::terminal:
        return put(payload, s.terminals, &image::Terminal::file);
    case RecordType::socket:
        return put(payload, s.sockets, &image::Socket::open_file);
    case RecordType::socket_more:
        return put(payload, s.socket_more, &image::SocketMore::socket);
    case RecordType::group_member:
        return append(payload, s.group_members);
    case RecordType::posix_queue:
        return put(payload, s.queues, &image::PosixQueue::file);
    case RecordType::passed:
        return append(payload, s.passed);
    case RecordType::senders:
        return put(payload, s.senders, &image::Senders::socket);
    case RecordType::connection:
        return append(payload, s.connections);
    case RecordType::waiting:
        return append(payload, s.waiting);
    case RecordType::ipc:
        return append(payload, s.ipc);
    case RecordType::semaphore_undo:
        return append(payload, s.undo);
    case RecordType::sigaction:
        return append(payload, s.actions);
    case RecordType::pending_signal:
        return append(payload, s.pending);
    case RecordType::timer:
        return append(payload, s.timers);
    case RecordType::rlimit:
        return append(payload, s.limits);
    default:
        known = false;
        return true;
    }
}

} // namespace

Result<void> read_saved(image::Image &image, Saved &saved)
{
    return image.records([&](const image::RecordView &view) -> Result<void> {
        // The view's payload is valid during this call only.
        const std::vector<uint8_t> &kept =
            saved.payloads.emplace_back(view.payload.begin(), view.payload.end());
        bool known = true;
        if (!take(saved, view.type, kept, known))
            return Error(EINVAL, "a damaged record in " + image.name());
        if (!known && (view.flags & image::kRequired) != 0) {
            const char *name = image::name_of(view.type);
            return Error(ENOTSUP, image.name() + ": this release cannot restore its record " +
                                      (name != nullptr ? name : "of an unknown type"));
        }
        return {};
    });
}

} // namespace cryo::restore
