// SPDX-License-Identifier: Apache-2.0
#include "coord/imager.hpp"

#include "backend/backend.hpp"
#include "base/printable.hpp"
#include "base/write_all.hpp"
#include "coord/image_copy.hpp"
#include "coord/image_needs.hpp"
#include "coord/snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <exception>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::coord {

namespace {

using nlohmann::json;

constexpr int report_fd = 3;

// Below what a message may have (message.cpp), with room for a notice of the daemon's own: a daemon
// that sends more is expelled.
constexpr size_t most_text = 1U << 14;
constexpr size_t most_notices = 1023;

void say(const json &what)
{
    const std::string text = what.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
    if (!write_all(report_fd, "the daemon", text))
        _exit(1);
}

// Names in it may be any bytes, and messages take neither a NUL nor what is not UTF-8.
json failure(const Error &error)
{
    return {{"error", printable_message(error.text())}, {"code", error.code()}};
}

std::string shortened(std::string text)
{
    if (text.size() <= most_text)
        return text;
    size_t end = most_text;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) // within a character
        end--;
    text.resize(end);
    return text + " ...";
}

image::DeltaMode mode_of(const std::string &delta)
{
    return delta == "incremental"    ? image::DeltaMode::incremental
           : delta == "differential" ? image::DeltaMode::differential
                                     : image::DeltaMode::adaptive;
}

json take(pid_t pid, const ImagePlace &place, const ImageOptions &options)
{
    json notices = json::array();
    capture::CheckpointOptions how;
    how.scope = image::Scope::tree;
    how.snapshot = options.fork ? capture::Snapshot::automatic : capture::Snapshot::stop;
    const bool delta = options.common.wants_delta();
    how.packing = image::packing_of(
        options.common.compress.empty() && delta ? "auto" : options.common.compress);
    if (delta) {
        how.delta.mode = mode_of(options.common.delta);
        const Result<bool> may = place.previous.empty() ? false : may_be_base(place.previous);
        if (!may)
            notices.push_back(printable_message("its image is complete: " + may.error().text()));
        else if (*may)
            how.delta.previous = place.previous;
    }
    how.sync = options.sync;
    how.files = options.files;
    how.phase = [](std::string_view name) { say({{"phase", name}}); };
    Result<std::unique_ptr<backend::Backend>> chosen =
        backend::choose(options.common.backend, backend::Purpose::checkpoint, {});
    if (!chosen)
        return failure(chosen.error());
    const std::string path =
        (place.local.empty() ? place.directory : place.local) + "/" + place.name;
    (*chosen)->set_filename(path);
    if (Result<void> ready = (*chosen)->before_ckpt(pid, how); !ready)
        return failure(ready.error());
    const Result<capture::Outcome> done = (*chosen)->do_ckpt();
    if (!done)
        return failure(done.error());
    for (const std::string &notice : done->notices)
        notices.push_back(printable_message(notice));
    std::vector<int> needs;
    if (delta) {
        Result<std::vector<int>> found = needs_of(path);
        if (!found)
            return failure(found.error());
        needs = std::move(*found);
    }
    return {{"bytes", done->image.size},
            {"threads", done->threads},
            {"stopped_ns", done->stopped_ns},
            {"needs", needs},
            {"notices", notices}};
}

Result<ImageCopy> copy_from_local(const ImagePlace &place, const ImageOptions &options)
{
    const Result<Directory> from = Directory::open(place.local);
    if (!from)
        return from.error();
    const Result<Directory> to = Directory::open(place.directory);
    if (!to)
        return to.error();
    return copy_image(*from, *to, place.name, {.rate = place.rate, .sync = options.sync});
}

// The program has nothing to do with this any more.
json copied(json taken, const ImagePlace &place, const ImageOptions &options)
{
    say({{"local", true}});
    const Result<ImageCopy> copy = copy_from_local(place, options);
    if (!copy)
        return failure(copy.error());
    if (copy->bytes != taken.value("bytes", uint64_t(0)))
        return failure(Error(EIO, fmt::format("{}/{}: has {} bytes, not those that were written",
                                              place.local, place.name, copy->bytes)));
    taken["checksum"] = copy->checksum;
    return taken;
}

json described(json taken, pid_t pid, const ImagePlace &place)
{
    const Result<Directory> directory = Directory::open(place.directory);
    if (!directory)
        return failure(directory.error());
    SnapshotImage image = {.rank = place.rank,
                           .pid = pid,
                           .node = place.node,
                           .file = place.name,
                           .bytes = taken.value("bytes", uint64_t(0)),
                           .checksum = taken.value("checksum", ""),
                           .needs = taken.value("needs", std::vector<int>()),
                           .is_counted = !place.node.empty()};
    if (!image.checksum.empty())
        image.local = place.local;
    if (Result<void> done = describe_image(*directory, image); !done)
        return failure(done.error());
    return taken;
}

json take_or_fail(pid_t pid, const ImagePlace &place, const ImageOptions &options)
{
    try {
        json taken = take(pid, place, options);
        if (!place.local.empty() && !taken.contains("error"))
            taken = copied(std::move(taken), place, options);
        return taken.contains("error") ? taken : described(std::move(taken), pid, place);
    } catch (const std::exception &error) {
        return failure(Error(EIO, error.what()));
    }
}

// Runs in the child. It keeps none of the daemon's descriptors: a rank
// that waits for the daemon's end must not wait for this process. An
// exception ends it, and does not make a second daemon of it.
[[noreturn]] void run(int report, pid_t daemon, pid_t pid, const ImagePlace &place,
                      const ImageOptions &options) noexcept
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != daemon)
        _exit(1);
    if (report != report_fd)
        dup2(report, report_fd);
    close_range(report_fd + 1, ~0U, 0);
    for (int signal : {SIGTERM, SIGINT, SIGHUP, SIGCHLD})
        ::signal(signal, SIG_DFL);
    say({{"end", take_or_fail(pid, place, options)}});
    _exit(0);
}

} // namespace

Imager::~Imager()
{
    if (report_)
        loop_.forget(report_.get());
    if (child_ > 0) {
        kill(child_, SIGKILL);
        while (waitpid(child_, nullptr, 0) < 0 && errno == EINTR)
            ;
    }
}

Result<void> Imager::start(pid_t pid, const ImagePlace &place, const ImageOptions &options,
                           Events events)
{
    if (mkdir(place.directory.c_str(), 0700) != 0)
        return Error::from_errno(place.directory, errno);
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return Error::from_errno("pipe", errno);
    report_ = Fd(ends[0]);
    const Fd write(ends[1]);
    events_ = std::move(events);
    const pid_t self = getpid();
    child_ = fork();
    if (child_ < 0)
        return Error::from_errno("fork", errno);
    if (child_ == 0)
        run(write.get(), self, pid, place, options);
    fcntl(report_.get(), F_SETFL, O_NONBLOCK);
    loop_.watch(report_.get(), POLLIN, [this](short) { ready(); });
    return {};
}

bool Imager::is_stopped_for(std::chrono::milliseconds time)
{
    siginfo_t info = {};
    const bool stopped =
        waitid(P_PID, static_cast<id_t>(child_), &info, WSTOPPED | WNOHANG | WNOWAIT) == 0 &&
        info.si_pid == child_;
    if (!stopped) {
        stopped_.reset();
        return false;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!stopped_)
        stopped_ = now;
    return now - *stopped_ >= time;
}

void Imager::ready()
{
    char bytes[4096];
    ssize_t n;
    while ((n = read(report_.get(), bytes, sizeof(bytes))) > 0)
        text_.append(bytes, static_cast<size_t>(n));
    const bool over = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    for (size_t at; (at = text_.find('\n')) != std::string::npos;) {
        const std::string one = text_.substr(0, at);
        text_.erase(0, at + 1);
        line(one);
    }
    if (over)
        finish();
}

void Imager::line(const std::string &text)
{
    const json said = json::parse(text, nullptr, false);
    if (said.is_discarded())
        return;
    if (said.value("phase", "") == capture::phase_frozen && events_.cut) {
        events_.cut();
        return;
    }
    if (said.contains("local") && events_.local) {
        events_.local();
        return;
    }
    if (!said.contains("end"))
        return;
    const json &end = said["end"];
    ended_ = true;
    taken_.error = shortened(end.value("error", ""));
    taken_.code = end.value("code", 0);
    taken_.bytes = end.value("bytes", uint64_t(0));
    taken_.checksum = end.value("checksum", "");
    taken_.threads = end.value("threads", uint64_t(0));
    taken_.stopped_ns = end.value("stopped_ns", uint64_t(0));
    taken_.needs = end.value("needs", std::vector<int>());
    taken_.notices = end.value("notices", std::vector<std::string>());
    taken_.notices.resize(std::min(taken_.notices.size(), most_notices));
    for (std::string &notice : taken_.notices)
        notice = shortened(std::move(notice));
}

void Imager::finish()
{
    loop_.forget(report_.get());
    report_.reset();
    int status = 0;
    while (waitpid(child_, &status, 0) < 0 && errno == EINTR)
        ;
    child_ = 0;
    if (!ended_) {
        taken_.error = WIFSIGNALED(status)
                           ? fmt::format("the process that took the image was killed by signal {}",
                                         WTERMSIG(status))
                           : "the process that took the image ended without a result";
        taken_.code = EINTR;
    }
    // The callback may destroy this object.
    const auto told = std::move(events_.end);
    const Taken taken = std::move(taken_);
    told(taken);
}

} // namespace cryo::coord
