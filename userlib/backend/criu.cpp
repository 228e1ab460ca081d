// SPDX-License-Identifier: Apache-2.0
#include "backend/criu.hpp"

#include "backend/criu_command.hpp"
#include "backend/criu_hook.hpp"
#include "backend/foreign_image.hpp"
#include "backend/open_image.hpp"
#include "backend/private_directory.hpp"
#include "base/clock.hpp"
#include "image/snapshot.hpp"
#include "look/members.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <sys/stat.h>
#include <time.h>

namespace cryo::backend {

namespace {

namespace fs = std::filesystem;

// criu options that the restart needs, too.
constexpr const char *shell_job = "--shell-job";
constexpr const char *tcp_close = "--tcp-close";

constexpr int lifeline_fd = 10; // the directory's lifeline, in criu

class Criu : public Backend
{
  public:
    explicit Criu(CriuCommand command) : command_(std::move(command)) {}

    std::string_view name() const override { return "criu"; }
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
    std::string images() const { return directory_->path() + "/images"; }
    std::string log() const { return directory_->path() + "/own/log"; }
    std::vector<std::string> common_words(const char *what) const;
    Result<void> make_directory(const std::string &parent);
    Result<void> check_options() const;
    Result<CriuRun> start_dump();
    Result<void> write_image(uint64_t stopped_ns);
    Result<void> go_on();
    Result<void> check_pids(const Maker &maker) const;
    void phase(std::string_view text) const
    {
        if (options_.phase)
            options_.phase(text);
    }

    CriuCommand command_;
    std::string file_;
    pid_t pid_ = 0;
    capture::CheckpointOptions options_;
    Outline outline_;
    Maker maker_;
    std::vector<capture::Relation> members_;
    std::optional<PrivateDirectory> directory_;
    std::optional<CriuHook> hook_;
    std::optional<ForeignImage> image_;
    capture::Outcome outcome_;
};

std::vector<std::string> Criu::common_words(const char *what) const
{
    return {what,  "--images-dir",       images(), "--work-dir",   directory_->path() + "/own",
            "-v1", "--log-file",         log(),    "--file-locks", "--ghost-limit",
            "1G",  "--no-default-config"};
}

Result<void> Criu::make_directory(const std::string &parent)
{
    Result<PrivateDirectory> made = PrivateDirectory::make(parent, "criu");
    if (!made)
        return made.error();
    directory_.emplace(std::move(*made));
    for (const char *part : {"images", "own"}) {
        const std::string path = fmt::format("{}/{}", directory_->path(), part);
        if (mkdir(path.c_str(), 0700) != 0)
            return Error::from_errno(path, errno);
    }
    return {};
}

Result<void> Criu::check_options() const
{
    const auto refuse = [](std::string_view what, std::string_view instead) {
        return Error(ENOTSUP, fmt::format("backend criu: {}: {}", what, instead));
    };
    const capture::FileOptions &files = options_.files;
    if (options_.directory)
        return refuse("-d", "it writes one image; give it a file (-f)");
    if (options_.delta.mode)
        return refuse("--delta", "its images are always complete; `cr_delta add` keeps versions");
    if (files.save_files || files.save_exe || files.save_private || files.save_shared)
        return refuse("--save-...", "criu does not save the contents of files that have a name");
    if (files.keep_sockets)
        return refuse("--sockets=keep", "its images have connections only as closed");
    if (files.refuse_pipes)
        return refuse("--pipes=refuse", "criu saves a pipe to outside as one without other end");
    if (options_.ptraced != capture::Ptraced::error || options_.ptracer_skip)
        return refuse("--ptraced-..., --ptracer-...", "criu has to trace the processes itself");
    return {};
}

Result<void> Criu::before_ckpt(pid_t pid, const capture::CheckpointOptions &options)
{
    pid_ = pid;
    options_ = options;
    options_.file = file_;
    if (Result<void> good = check_options(); !good)
        return good;
    if (options.scope == image::Scope::group || options.scope == image::Scope::session)
        return Error(ENOTSUP, "backend criu: it saves a process with its descendants: name that "
                              "process, without --pgid and --sid");
    Result<std::vector<capture::Relation>> members = capture::members_of(image::Scope::tree, pid);
    if (!members)
        return members.error();
    members_ = std::move(*members);
    if (options.scope == image::Scope::process && members_.size() > 1)
        return Error(ENOTSUP, fmt::format("process {} has children ({} …): criu saves a process "
                                          "with its descendants, without --pid",
                                          pid, members_[1].pid));
    Result<Outline> outline = Outline::of(pid);
    if (!outline)
        return outline.error();
    outline_ = std::move(*outline);
    maker_ = {"criu", command_.version(), {}, {}};
    if (outline_.sid != pid) // its session has another leader, usually a shell
        maker_.options.emplace_back(shell_job);
    if (options.files.close_sockets)
        maker_.options.emplace_back(tcp_close);
    for (const capture::Relation &member : members_)
        maker_.pids.push_back(static_cast<uint32_t>(member.pid));
    Result<ForeignImage> image = ForeignImage::begin(options_);
    if (!image)
        return image.error();
    image_.emplace(std::move(*image));
    // The image's directory has the room that the image needs anyway.
    const fs::path parent = fs::path(file_).parent_path();
    return make_directory(options.fd >= 0  ? temporary_place()
                          : parent.empty() ? "."
                                           : parent.string());
}

Result<CriuRun> Criu::start_dump()
{
    std::vector<std::string> words = common_words("dump");
    words.insert(words.end(), {"--tree", std::to_string(pid_)});
    words.insert(words.end(), maker_.options.begin(), maker_.options.end());
    if (options_.timeout_s != 0)
        words.insert(words.end(), {"--timeout", std::to_string(options_.timeout_s)});
    if (options_.then_signal == SIGSTOP)
        words.emplace_back("--leave-stopped");
    else if (options_.then_signal != SIGKILL)
        words.emplace_back("--leave-running");
    if (stands_still()) {
        Result<CriuHook> hook = CriuHook::make(directory_->path());
        if (!hook)
            return hook.error();
        words.insert(words.end(), {"--action-script", hook->path()});
        hook_.emplace(std::move(*hook));
    }
    return command_.start(std::move(words), Group::own, {{directory_->lifeline(), lifeline_fd}},
                          hook_ ? hook_->environment() : "");
}

Result<void> Criu::write_image(uint64_t stopped_ns)
{
    if (Result<void> described =
            image_->describe(outline_, maker_, stands_still() ? "stop" : "running", stopped_ns);
        !described)
        return described;
    if (Result<void> attached = image_->attach_all(images()); !attached)
        return attached;
    Result<image::Committed> committed = image_->commit();
    if (!committed)
        return committed.error();
    outcome_.image = *committed;
    phase("committed");
    return {};
}

// A signal stays pending until the processes run again, and is then the first that they get. For
// SIGKILL and SIGSTOP criu itself ends them, or leaves them stopped.
Result<void> Criu::go_on()
{
    const int signal = options_.then_signal;
    if (signal != 0 && signal != SIGKILL && signal != SIGSTOP) {
        for (const capture::Relation &member : members_)
            kill(member.pid, signal);
    }
    if (!hook_->give_leave())
        return Error(EPIPE, file_ + ": is complete; but criu has ended before the program");
    return {};
}

Result<capture::Outcome> Criu::do_ckpt()
{
    const int64_t begun = clock_ns(CLOCK_MONOTONIC);
    const auto since = [begun] { return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC) - begun); };
    const auto failed = [&](const Error &error) {
        return error.within(fmt::format("process {} was not saved, and goes on", pid_));
    };
    Result<CriuRun> dump = start_dump();
    if (!dump)
        return dump.error();
    if (stands_still()) {
        if (!hook_->await(dump->pid())) {
            const Result<void> why = dump->wait(log());
            return failed(why ? Error(EIO, "criu did not wait for the image") : why.error());
        }
        phase("criu has written its files");
        if (Result<void> written = write_image(since()); !written) {
            hook_->refuse();
            static_cast<void>(dump->wait(log()));
            return failed(written.error());
        }
        if (Result<void> left = go_on(); !left)
            return left.error();
    }
    if (Result<void> done = dump->wait(log()); !done)
        return stands_still() ? done.error().within(file_ + ": is complete; but then")
                              : failed(done.error());
    outcome_.stopped_ns = since();
    if (!stands_still()) {
        phase("criu has written its files; the program goes on");
        if (Result<void> written = write_image(outcome_.stopped_ns); !written)
            return failed(written.error());
    }
    outcome_.processes = members_.size();
    outcome_.threads = outline_.threads;
    outcome_.total_ns = since();
    directory_.reset();
    return outcome_;
}

Result<void> Criu::check_pids(const Maker &maker) const
{
    for (const uint32_t pid : maker.pids) {
        if (kill(static_cast<pid_t>(pid), 0) == 0 || errno == EPERM)
            return Error(EBUSY, fmt::format("{}: pid {} is in use here, and criu cannot assign "
                                            "another one; wait for that process to end",
                                            file_, pid));
    }
    return {};
}

Result<void> check_restart(const restore::RestartOptions &options)
{
    const auto refuse = [](std::string_view what, std::string_view why) {
        return Error(ENOTSUP, fmt::format("an image of criu: {}: {}", what, why));
    };
    if (!options.restore_pid && !options.prefer_pid)
        return refuse("--no-restore-pid", "criu gives processes their saved ids only");
    if (options.own_pid_namespace)
        return refuse("--pidns", "criu restores into the namespaces that were saved");
    if (options.lazy)
        return refuse("--lazy", "its memory is read at once");
    if (!options.files.relocations.empty() || !options.files.redirected.empty() ||
        options.files.keep_output)
        return refuse("--relocate, --stdin, --stdout, --stderr, --keep-output",
                      "criu opens files as they were");
    if (options.for_requester)
        return refuse("cr_request_restart", "use the command cr_restart");
    return {};
}

Result<pid_t> read_pid(const std::string &path)
{
    std::ifstream file(path);
    pid_t pid = 0;
    if (!(file >> pid) || pid <= 0)
        return Error(EIO, path + ": criu did not report the pid");
    return pid;
}

Result<Alive> Criu::restart(const RestartRequest &request)
{
    if (Result<void> good = check_restart(request.options); !good)
        return good.error();
    Result<std::unique_ptr<image::Image>> image = open_first_member(request, file_);
    if (!image)
        return image.error();
    const Result<Maker> maker = maker_of(**image);
    if (!maker)
        return maker.error();
    if (Result<void> free = check_pids(*maker); !free)
        return free.error();
    if (Result<void> made = make_directory(temporary_place()); !made)
        return made.error().within("TMPDIR chooses another place");
    const Result<uint64_t> bytes = unpack(**image, images());
    if (!bytes)
        return bytes.error();
    if (request.phase)
        request.phase("image verified and unpacked");

    // Blocked meanwhile: a signal then ends the program, our child, and not criu half-way.
    sigset_t ends;
    sigemptyset(&ends);
    for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGTERM})
        sigaddset(&ends, signal);
    sigprocmask(SIG_BLOCK, &ends, nullptr);
    const std::string pid_file = directory_->path() + "/own/pid";
    std::vector<std::string> words = common_words("restore");
    words.insert(words.end(), {"--restore-detached", "--restore-sibling", "--pidfile", pid_file});
    for (const std::string &option : maker->options) {
        if (option != shell_job && option != tcp_close)
            return Error(EPROTO, fmt::format("{}: needs {}, which this cr_restart does not know",
                                             file_, option));
        words.push_back(option);
    }
    if (request.options.force)
        words.insert(words.end(), {"--file-validation", "filesize"});
    if (request.options.then_signal != 0)
        words.emplace_back("--leave-stopped");
    Result<CriuRun> run =
        command_.start(std::move(words), Group::callers, {{directory_->lifeline(), lifeline_fd}});
    if (!run)
        return run.error();
    const pid_t root = maker->pids.empty() ? 0 : static_cast<pid_t>(maker->pids.front());
    if (Result<void> done = run->wait_for_restore(log(), root); !done)
        return done.error().within(file_);
    const Result<pid_t> pid = read_pid(pid_file);
    if (!pid)
        return pid.error();
    directory_.reset();
    Alive alive;
    alive.pid = *pid;
    alive.processes = maker->pids.size();
    alive.bytes = *bytes;
    static_cast<void>((*image)->for_each<image::Process>(
        [&](const image::Process &process) { alive.cut_realtime = process.cut_realtime; }));
    if (const int signal = request.options.then_signal; signal != 0 && signal != SIGSTOP) {
        const Result<std::vector<capture::Relation>> all =
            capture::members_of(image::Scope::tree, *pid);
        for (const int next : {signal, SIGCONT}) {
            for (const capture::Relation &member : all ? *all : std::vector<capture::Relation>())
                kill(member.pid, next);
        }
    }
    if (request.phase)
        request.phase("criu has restored it");
    return alive;
}

} // namespace

Result<std::unique_ptr<Backend>> make_criu()
{
    Result<CriuCommand> command = CriuCommand::find();
    if (!command)
        return command.error();
    return std::unique_ptr<Backend>(std::make_unique<Criu>(std::move(*command)));
}

bool criu_would_work()
{
    return bool(CriuCommand::find());
}

} // namespace cryo::backend
