// SPDX-License-Identifier: Apache-2.0
#include "backend/self.hpp"

#include "backend/foreign_image.hpp"
#include "backend/open_image.hpp"
#include "backend/private_directory.hpp"
#include "backend/self_request.hpp"
#include "base/clock.hpp"
#include "image/snapshot.hpp"
#include "libcr/self.h"
#include "look/proc.hpp"
#include "restore/ending_signals.hpp"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

namespace cryo::backend {

namespace {

namespace fs = std::filesystem;

constexpr const char *data_name = "state"; // the name of the program's own data in the image

class Self : public Backend
{
  public:
    std::string_view name() const override { return "self"; }
    void set_filename(std::string file) override { file_ = std::move(file); }
    Result<void> before_ckpt(pid_t pid, const capture::CheckpointOptions &options) override;
    Result<capture::Outcome> do_ckpt() override;
    Result<Alive> restart(const RestartRequest &request) override;
    Result<void> after_restart(const Alive & /*alive*/) override { return {}; }

  private:
    bool stands_still() const
    {
        return options_.then_signal != 0 || options_.snapshot == capture::Snapshot::stop;
    }
    Result<void> check_options() const;
    Result<void> look_at_start();
    Result<capture::Outcome> save();
    void phase(std::string_view text) const
    {
        if (options_.phase)
            options_.phase(text);
    }

    std::string file_;
    pid_t pid_ = 0;
    capture::CheckpointOptions options_;
    Outline outline_;
    std::optional<SelfRequest> request_;
    std::optional<ForeignImage> image_;
};

Error refused(std::string_view what, std::string_view why)
{
    return {ENOTSUP, fmt::format("backend self: {}: {}", what, why)};
}

Result<void> Self::check_options() const
{
    const capture::FileOptions &files = options_.files;
    if (options_.directory)
        return refused("-d", "it writes one image; give it a file (-f)");
    if (options_.delta.mode)
        return refused("--delta", "its images are always complete; `cr_delta add` keeps versions");
    if (files.save_files || files.save_exe || files.save_private || files.save_shared)
        return refused("--save-...", "the program itself says what is saved");
    if (files.refuse_pipes || files.close_sockets || files.keep_sockets)
        return refused("--pipes, --sockets", "the program itself makes its connections anew");
    if (options_.scope == image::Scope::group || options_.scope == image::Scope::session)
        return refused("--pgid, --sid", "each process saves itself; name one");
    return {};
}

// True if the executable file contains the library's name.
bool names_library(const capture::Proc &proc)
{
    constexpr std::string_view name = "libcr.so";
    Result<Fd> file = proc.open("exe", O_RDONLY | O_CLOEXEC);
    struct stat status = {};
    if (!file || fstat(file->get(), &status) != 0 || status.st_size <= 0)
        return false;
    const auto size = static_cast<size_t>(status.st_size);
    void *contents = mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file->get(), 0);
    if (contents == MAP_FAILED)
        return false;
    const bool named = memmem(contents, size, name.data(), name.size()) != nullptr;
    munmap(contents, size);
    return named;
}

// The library must be loaded; only the program knows whether functions are registered. A process
// that another backend has restored no longer maps the library from its file.
Result<void> check_library(const capture::Proc &proc)
{
    const Result<std::string> maps = proc.read("maps");
    if (!maps)
        return maps.error();
    if (maps->find("/libcr.so") == std::string::npos && !names_library(proc))
        return Error(ENOTSUP, fmt::format("process {} does not save itself: it does not use libcr "
                                          "(cr_self_register in libcr.h)",
                                          proc.pid()));
    return {};
}

// A restart starts the program from these paths.
Result<void> check_start(const Outline &outline)
{
    constexpr std::string_view gone = " (deleted)";
    for (const std::string &path : {outline.exe, outline.cwd}) {
        if (path.ends_with(gone))
            return Error(ENOENT, path + ": the program could not be started again");
    }
    if (outline.arguments.empty())
        return Error(EINVAL, fmt::format("process {} has no arguments", outline.pid));
    return {};
}

Result<void> Self::before_ckpt(pid_t pid, const capture::CheckpointOptions &options)
{
    pid_ = pid;
    options_ = options;
    options_.file = file_;
    if (Result<void> good = check_options(); !good)
        return good;
    Result<SelfRequest> request = SelfRequest::of(pid);
    if (!request)
        return request.error();
    request_.emplace(std::move(*request));
    if (Result<void> good = check_library(capture::Proc(pid)); !good)
        return good;
    if (Result<void> good = look_at_start(); !good)
        return good;
    Result<ForeignImage> image = ForeignImage::begin(options_);
    if (!image)
        return image.error();
    image_.emplace(std::move(*image));
    return {};
}

// How the program is started again.
Result<void> Self::look_at_start()
{
    Result<Outline> outline = Outline::of(pid_);
    if (Result<void> alive = request_->check_alive(); !alive)
        return alive;
    if (!outline)
        return outline.error();
    outline_ = std::move(*outline);
    return check_start(outline_);
}

Result<capture::Outcome> Self::do_ckpt()
{
    Result<capture::Outcome> done = save();
    request_.reset(); // frees the program, whatever it was waiting for
    if (!done && done.error().code() != ESRCH)
        return done.error().within(fmt::format("process {} was not saved, and goes on", pid_));
    return done;
}

Result<capture::Outcome> Self::save()
{
    const int64_t begun = clock_ns(CLOCK_MONOTONIC);
    const auto since = [](int64_t when) {
        return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC) - when);
    };
    const uint64_t deadline =
        options_.timeout_s == 0
            ? 0
            : static_cast<uint64_t>(begun) + uint64_t(options_.timeout_s) * 1'000'000'000;
    phase("waiting for the program to come to a point (cr_self_point)");
    if (Result<void> came = request_->await(deadline); !came)
        return came.error();
    // While it was waited for, the program may have executed another one, or changed its directory.
    if (Result<void> good = look_at_start(); !good)
        return good.error();
    // The image's directory has the room that the image needs anyway.
    const fs::path parent = fs::path(file_).parent_path();
    Result<PrivateDirectory> directory = PrivateDirectory::make(options_.fd >= 0 ? temporary_place()
                                                                : parent.empty() ? "."
                                                                                 : parent.string(),
                                                                "self");
    if (!directory)
        return directory.error();
    const std::string path = fmt::format("{}/{}", directory->path(), data_name);
    const Fd file(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file)
        return Error::from_errno(path, errno);
    const int64_t stopped = clock_ns(CLOCK_MONOTONIC);
    outline_.begun_realtime = clock_ns(CLOCK_REALTIME); // the time of the cut
    outline_.begun_monotonic = stopped;
    if (Result<void> saved = request_->save(file.get(), stands_still(), deadline); !saved)
        return saved.error();
    capture::Outcome outcome;
    outcome.stopped_ns = since(stopped);
    phase(stands_still() ? "the program has saved itself"
                         : "the program has saved itself, and goes on");
    const Maker maker = {"self", "the program itself", {}, {static_cast<uint32_t>(outline_.pid)}};
    Result<void> written =
        image_->describe(outline_, maker, stands_still() ? "stop" : "running", outcome.stopped_ns);
    if (written)
        written = image_->attach(data_name, file.get());
    if (!written)
        return written.error();
    Result<image::Committed> committed = image_->commit();
    if (!committed)
        return committed.error();
    phase("committed");
    outcome.image = *committed;
    if (stands_still()) {
        outcome.stopped_ns = since(stopped);
        if (options_.then_signal != 0)
            request_->signal(options_.then_signal);
        request_->let_go();
    }
    outcome.processes = 1;
    outcome.threads = outline_.threads;
    outcome.total_ns = since(begun);
    return outcome;
}

Result<void> check_restart(const restore::RestartOptions &options)
{
    const auto refuse = [](std::string_view what, std::string_view why) {
        return Error(ENOTSUP,
                     fmt::format("an image of a program that saves itself: {}: {}", what, why));
    };
    if (options.own_pid_namespace)
        return refuse("--pidns", "it is started anew, and asks for no ids");
    if (options.lazy)
        return refuse("--lazy", "the program reads what it has saved at once");
    if (!options.files.relocations.empty() || !options.files.redirected.empty())
        return refuse("--relocate, --stdin, --stdout, --stderr", "it opens its files itself");
    if (options.for_requester)
        return refuse("cr_request_restart", "use the command cr_restart");
    return {};
}

// How a process was started, and will be started again.
struct Start {
    std::string exe, cwd, arguments, environment;
    uint32_t pid = 0, uid = 0, umask = 0;
    int64_t cut = 0;
};

Result<Start> start_of(image::Image &image)
{
    Start start;
    Result<void> read = image.for_each<image::Process>([&](const image::Process &process) {
        start.exe = process.exe;
        start.cwd = process.cwd;
        start.pid = process.pid;
        start.uid = process.uid;
        start.umask = process.umask;
        start.cut = process.cut_realtime;
    });
    if (read)
        read = image.for_each<image::Args>(
            [&](const image::Args &part) { start.arguments += image::as_text(part.data); });
    if (read)
        read = image.for_each<image::Environ>(
            [&](const image::Environ &part) { start.environment += image::as_text(part.data); });
    if (!read)
        return read.error();
    if (start.exe.empty() || start.arguments.empty())
        return image::damaged(image.name() + ": does not say how the program is started");
    return start;
}

// Pointers to the words of a text, each of which is followed by a NUL.
std::vector<char *> words_of(std::string &text)
{
    if (!text.empty() && text.back() != '\0')
        text += '\0';
    std::vector<char *> words;
    for (size_t at = 0; at < text.size(); at = text.find('\0', at) + 1) {
        // Skip a previous restart's variable, if the program was started by one.
        if (!std::string_view(text).substr(at).starts_with(CRYO_SELF_VARIABLE "="))
            words.push_back(&text[at]);
    }
    return words;
}

Result<Fd> open_data(image::Image &image, uint64_t &bytes)
{
    const Result<PrivateDirectory> directory = PrivateDirectory::make(temporary_place(), "self");
    if (!directory)
        return directory.error().within("TMPDIR chooses another place");
    const Result<uint64_t> unpacked = unpack(image, directory->path());
    if (!unpacked)
        return unpacked.error();
    bytes = *unpacked;
    const std::string path = fmt::format("{}/{}", directory->path(), data_name);
    Fd data(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW));
    if (!data)
        return Error::from_errno(path, errno);
    return data;
}

// Runs in the child. Failures are reported as an errno.
[[noreturn]] void become(Start &start, pid_t parent, int data, int command, int failed)
{
    const auto give_up = [failed] {
        const int error = errno;
        static_cast<void>(!write(failed, &error, sizeof(error)));
        _exit(127);
    };
    prctl(PR_SET_PDEATHSIG, SIGKILL); // until the program's library watches the connection itself
    if (getppid() != parent)
        _exit(127);
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int fd : {data, command})
        fcntl(fd, F_SETFD, 0);
    umask(start.umask);
    std::string variable = fmt::format("{}={}:{}:{}", CRYO_SELF_VARIABLE, getpid(), data, command);
    std::vector<char *> arguments = words_of(start.arguments);
    std::vector<char *> environment = words_of(start.environment);
    environment.push_back(variable.data());
    for (std::vector<char *> *words : {&arguments, &environment})
        words->push_back(nullptr);
    if (chdir(start.cwd.c_str()) != 0)
        give_up();
    execve(start.exe.c_str(), arguments.data(), environment.data());
    give_up();
    __builtin_unreachable();
}

// Kills and reaps the program: it is our child, and nothing else will wait for it.
Error ended(pid_t pid, const Error &why)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
    return why;
}

Result<Alive> Self::restart(const RestartRequest &request)
{
    if (Result<void> good = check_restart(request.options); !good)
        return good.error();
    Result<std::unique_ptr<image::Image>> image = open_first_member(request, file_);
    if (!image)
        return image.error();
    Result<Start> start = start_of(**image);
    if (!start)
        return start.error();
    if (start->uid != getuid())
        return Error(EPERM, fmt::format("the image belongs to user {}; restart it as that user",
                                        start->uid));
    Alive alive;
    Result<Fd> data = open_data(**image, alive.bytes);
    if (!data)
        return data.error();
    if (request.phase)
        request.phase("image verified and unpacked");
    int pair[2], pipe[2];
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) != 0)
        return Error::from_errno("a socket for the program", errno);
    const Fd ours(pair[0]);
    Fd its(pair[1]);
    if (pipe2(pipe, O_CLOEXEC) != 0)
        return Error::from_errno("pipe", errno);
    const Fd failure(pipe[0]);
    Fd failed(pipe[1]);
    const pid_t parent = getpid();
    const pid_t pid = fork();
    if (pid < 0)
        return Error::from_errno("fork", errno);
    if (pid == 0)
        become(*start, parent, data->get(), its.get(), failed.get());
    its.reset();
    failed.reset();
    int error = 0;
    if (read(failure.get(), &error, sizeof(error)) == sizeof(error))
        return ended(pid, Error::from_errno(
                              fmt::format("starting {} in {}", start->exe, start->cwd), error));
    if (request.phase)
        request.phase("program started");
    if (!receive_back(ours.get(), error))
        return ended(
            pid, Error(ECHILD,
                       fmt::format("{} has ended before it read its saved state (cr_self_register)",
                                   start->exe)));
    if (error != 0)
        return ended(pid,
                     Error::from_errno(
                         fmt::format("{}: its own function to restore failed", start->exe), error));
    if (request.options.then_signal != 0)
        kill(pid, request.options.then_signal);
    const restore::EndingSignals its_signals; // from now on signals are meant for it
    send_go(ours.get());
    alive.pid = pid;
    alive.processes = 1;
    alive.cut_realtime = start->cut;
    if (request.options.restore_pid && start->pid != static_cast<uint32_t>(pid))
        alive.notices.push_back(fmt::format("the program has been started anew, as process {} (it "
                                            "was {})",
                                            pid, start->pid));
    if (request.phase)
        request.phase("the program has what it had saved");
    return alive;
}

} // namespace

std::unique_ptr<Backend> make_self()
{
    return std::make_unique<Self>();
}

} // namespace cryo::backend
