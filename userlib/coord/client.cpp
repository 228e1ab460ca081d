// SPDX-License-Identifier: Apache-2.0
#include "coord/client.hpp"

#include "cli/json_text.hpp"
#include "coord/frame.hpp"
#include "coord/message.hpp"
#include "coord/patience.hpp"
#include "look/proc.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

namespace {

constexpr int client_patience = 3; // times longest_silence()

Error ended()
{
    return Error(ECONNRESET, "the job's daemon has ended; nothing was saved, and the last finished "
                             "snapshot is as it was");
}

// The daemon sends something every second. If it is stopped, the checkpoint may go on later.
Error silent()
{
    return Error(ETIMEDOUT,
                 fmt::format("the job's first daemon has said nothing for {}: it is stopped, or "
                             "its machine is; what it does when it goes on, --status tells",
                             in_seconds(client_patience * longest_silence())));
}

// Of a hostile job, which may be another user's; or of a broken one.
Error endless(std::chrono::milliseconds limit)
{
    return Error(
        ETIMEDOUT,
        fmt::format("the job's first daemon says that it works, and has come to no end for "
                    "{}; what it does, --status tells; --time gives it longer",
                    in_seconds(limit)));
}

// A process says by its environment to which job it belongs. Root believes that of a job of the
// process's own user only: like ptrace, this compares all of the process's user ids.
Result<void> check_owner(pid_t launcher, int daemon)
{
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (getsockopt(daemon, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        return Error::from_errno("the job's daemon", errno);
    const Result<std::string> status = capture::Proc(launcher).read("status");
    if (!status)
        return status.error();
    std::string_view ids = capture::field(*status, "Uid");
    for (int i = 0; i < 3; i++) { // real, effective, saved
        if (const uint64_t id = capture::take_number(ids); id != peer.uid)
            return Error(EACCES, fmt::format("process {}: leads to a job of user {}, and has user "
                                             "id {} itself; it is not that job's launcher",
                                             launcher, peer.uid, id));
    }
    return {};
}

bool are_own(pid_t launcher, int daemon)
{
    struct stat process = {};
    ucred peer = {};
    socklen_t size = sizeof(peer);
    return stat(fmt::format("/proc/{}", launcher).c_str(), &process) == 0 &&
           process.st_uid == geteuid() &&
           getsockopt(daemon, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == geteuid();
}

} // namespace

Result<Client> Client::to(pid_t launcher)
{
    Result<Job> job = job_of(launcher);
    for (int tries = 0; !job && job.error().code() == EAGAIN && tries < 1000; tries++) {
        usleep(10'000); // until cr_run has become mpirun; nothing announces that
        job = job_of(launcher);
    }
    if (!job)
        return job.error();
    Result<Fd> socket = connect_root(*job);
    if (!socket)
        return socket.error();
    if (Result<void> owned = check_owner(launcher, socket->get()); !owned)
        return owned.error();
    Client client;
    client.job_ = std::move(*job);
    client.socket_ = std::move(*socket);
    client.own_ = are_own(launcher, client.socket_.get());
    return client;
}

void Client::limit(int64_t patience_s)
{
    limit_ = longest_command(patience_s);
    looked_ = Clock::now();
    end_ = patience_s > 0 ? std::optional(looked_ + limit_) : std::nullopt;
}

void Client::limit_to(std::chrono::milliseconds most)
{
    limit_ = most;
    looked_ = Clock::now();
    end_ = looked_ + limit_;
}

Result<void> Client::send(const json &message)
{
    if (const std::string *text = cli::not_utf8(message))
        return Error(EILSEQ, *text + ": is not UTF-8");
    const std::string body = message.dump();
    FrameHeader header;
    header.length = static_cast<uint32_t>(body.size());
    char bytes[sizeof(header)];
    memcpy(bytes, &header, sizeof(header));
    const std::string all = std::string(bytes, sizeof(bytes)) + body;
    for (size_t at = 0; at < all.size();) {
        const ssize_t n = ::send(socket_.get(), all.data() + at, all.size() - at, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return errno == EAGAIN ? silent() : ended();
        at += static_cast<size_t>(n);
    }
    return {};
}

Result<json> Client::next()
{
    for (;;) {
        FrameHeader header;
        if (in_.size() >= sizeof(header)) {
            memcpy(&header, in_.data(), sizeof(header));
            if (header.length > most_body)
                return Error(EPROTO, "the job's daemon speaks another version's language");
            if (in_.size() - sizeof(header) >= header.length) {
                const std::string body = in_.substr(sizeof(header), header.length);
                in_.erase(0, sizeof(header) + header.length);
                Result<Message> message = unpack(Speaker::job, body);
                if (!message)
                    return message.error().within("the job's daemon");
                if (message->type == Type::working)
                    continue;
                if (message->type == Type::images && end_ && !std::exchange(writes_images_, true)) {
                    limit_ += longest_growth;
                    *end_ += longest_growth;
                }
                return std::move(message->fields);
            }
        }
        if (Result<void> more = receive(); !more)
            return more.error();
    }
}

Result<void> Client::receive()
{
    std::chrono::milliseconds patience = client_patience * longest_silence();
    const auto now = Clock::now();
    if (end_) // nothing waits longer, unless this command was stopped (^Z)
        *end_ += std::max(now - looked_ - patience, Clock::duration::zero());
    looked_ = now;
    const auto left = end_ ? std::chrono::ceil<std::chrono::milliseconds>(*end_ - now)
                           : std::chrono::milliseconds::max();
    if (left.count() <= 0)
        return endless(limit_);
    patience = std::min(patience, left);
    pollfd ready = {socket_.get(), POLLIN, 0};
    const timespec limit = {patience.count() / 1000, patience.count() % 1000 * 1'000'000};
    sigset_t mask;
    pthread_sigmask(SIG_SETMASK, nullptr, &mask);
    sigdelset(&mask, SIGINT);
    const int found = ppoll(&ready, 1, &limit, &mask);
    if (found == 0)
        return patience == left ? endless(limit_) : silent();
    char bytes[65536];
    const ssize_t n = found < 0 ? -1 : recv(socket_.get(), bytes, sizeof(bytes), 0);
    if (n < 0 && errno == EINTR)
        return Error(EINTR, "interrupted");
    if (n < 0 && errno != ECONNRESET)
        return Error::from_errno(
            "waiting for the job's first daemon, which may go on with it (what it "
            "does, --status tells)",
            errno);
    if (n <= 0)
        return ended();
    in_.append(bytes, static_cast<size_t>(n));
    return {};
}

Result<json> Client::until_end(const std::function<void(const json &)> &tell,
                               const std::function<void()> &interrupted)
{
    for (;;) {
        Result<json> message = next();
        if (!message && message.error().code() == EINTR) {
            interrupted();
            continue;
        }
        if (!message)
            return message;
        if (message->value("type", "") != "end") {
            tell(*message);
            continue;
        }
        if (!message->value("ok", false))
            return Error(message->value("code", EIO), message->value("error", "it failed"));
        return message;
    }
}

} // namespace cryo::coord
