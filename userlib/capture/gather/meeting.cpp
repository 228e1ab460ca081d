// SPDX-License-Identifier: Apache-2.0
#include "capture/gather/meeting.hpp"

#include "base/passing.hpp"
#include "protocol/agent.hpp"

#include <cerrno>
#include <filesystem>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

namespace cryo::capture::meeting {

namespace {

constexpr uint32_t protocol = 2;
constexpr size_t most_bytes = 65536;

} // namespace

Word Packet::word() const
{
    size_t at = 0;
    Word word = Word::need;
    return take(at, word) ? word : Word::need;
}

Heard receive(int socket, Packet &packet, int milliseconds)
{
    pollfd look = {socket, POLLIN, 0};
    if (milliseconds > 0 && poll(&look, 1, milliseconds) <= 0)
        return Heard::nothing;
    packet = {};
    packet.bytes.resize(most_bytes);
    const ssize_t n = receive_with(socket, packet.bytes, packet.fds, MSG_DONTWAIT);
    if (n < 0 && errno == EAGAIN)
        return Heard::nothing;
    if (n <= 0)
        return Heard::closed;
    packet.bytes.resize(static_cast<size_t>(n));
    return Heard::packet;
}

bool send(int socket, std::span<const char> bytes, std::span<const int> fds)
{
    if (bytes.size() > most_bytes || fds.size() > most_fds)
        return false;
    return send_with(socket, bytes, fds) == static_cast<ssize_t>(bytes.size());
}

// An image is handed on by copying its file after its programs have resumed. So the file must be
// readable again and complete in itself, and no signal may follow the commit.
Terms terms_of(const CheckpointOptions &options)
{
    struct stat space;
    if (!options.may_join || options.then_signal != 0 || options.callbacks_wait ||
        options.directory || options.fd >= 0 || options.delta.mode ||
        stat("/proc/self/ns/pid", &space) != 0)
        return {};
    const FileOptions &files = options.files;
    uint32_t choices = 0;
    for (const bool one :
         {files.close_sockets, files.keep_sockets, files.refuse_pipes, files.close_fifos,
          files.save_files, files.save_exe, files.save_private, files.save_shared})
        choices = choices << 1 | (one ? 1U : 0U);
    return {space.st_ino,
            protocol,
            agent::protocol_version,
            static_cast<uint32_t>(options.snapshot),
            static_cast<uint32_t>(options.packing),
            choices,
            static_cast<uint32_t>(options.ptraced) << 1 | (options.ptracer_skip ? 1U : 0U)};
}

std::optional<Same> same_of(const CheckpointOptions &options, pid_t id)
{
    Same same;
    same.terms = terms_of(options);
    std::error_code failed;
    const std::string file =
        std::filesystem::absolute(options.file, failed).lexically_normal().string();
    if (same.terms == Terms() || options.existing != image::Existing::replace || failed ||
        file.size() >= sizeof(same.file))
        return std::nullopt;
    same.scope = static_cast<uint32_t>(options.scope);
    same.id = id;
    same.sync = options.sync ? 1 : 0;
    memcpy(same.file, file.c_str(), file.size());
    return same;
}

} // namespace cryo::capture::meeting
