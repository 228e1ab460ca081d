// SPDX-License-Identifier: Apache-2.0
#include "backend/plugin.hpp"

#include "base/clock.hpp"
#include "cli/place.hpp"
#include "cryo_backend.h"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::backend {

namespace {

class Plugin : public Backend
{
  public:
    explicit Plugin(const cryo_backend_ops &operations) : operations_(operations) {}

    std::string_view name() const override { return operations_.name; }
    void set_filename(std::string file) override { file_ = std::move(file); }
    Result<void> before_ckpt(pid_t pid, const capture::CheckpointOptions &options) override;
    Result<capture::Outcome> do_ckpt() override;
    Result<Alive> restart(const RestartRequest &request) override;
    Result<void> after_restart(const Alive &alive) override;

  private:
    template <class... Args>
    Result<void> call(std::string_view what, int (*function)(Args...), Args... args)
    {
        if (function == nullptr)
            return {};
        if (const int rc = function(args...); rc < 0)
            return Error::from_errno(fmt::format("backend {}: {}", operations_.name, what), -rc);
        return {};
    }

    Result<void> commit();

    const cryo_backend_ops &operations_;
    std::string file_;
    std::string written_; // the file that the plug-in writes, until it is complete
    pid_t pid_ = 0;
    capture::CheckpointOptions options_;
};

Result<void> Plugin::before_ckpt(pid_t pid, const capture::CheckpointOptions &options)
{
    pid_ = pid;
    options_ = options;
    if (options.fd >= 0 || options.directory || options.existing == image::Existing::backup)
        return Error(ENOTSUP, fmt::format("backend {} writes one file under its name: without -F, "
                                          "-d and --backup",
                                          operations_.name));
    if (options.existing == image::Existing::refuse && access(file_.c_str(), F_OK) == 0)
        return Error(EEXIST, file_ + ": exists; choose another name or allow it to be replaced");
    written_ = fmt::format("{}.{}", file_, getpid());
    if (Result<void> named = call("set_filename", operations_.set_filename, written_.c_str());
        !named)
        return named;
    return call("before_ckpt", operations_.before_ckpt, static_cast<int>(pid));
}

// Never overwrites an image in place, whatever the plug-in does.
Result<void> Plugin::commit()
{
    const bool refuses = options_.existing == image::Existing::refuse;
    if (renameat2(AT_FDCWD, written_.c_str(), AT_FDCWD, file_.c_str(),
                  refuses ? RENAME_NOREPLACE : 0) == 0)
        return {};
    const int error = errno;
    unlink(written_.c_str());
    return Error::from_errno(fmt::format("backend {}: {}", operations_.name, file_), error);
}

Result<capture::Outcome> Plugin::do_ckpt()
{
    if (operations_.do_ckpt == nullptr)
        return Error(ENOTSUP, fmt::format("backend {} cannot save a process", operations_.name));
    const uint64_t begun = now_ns();
    if (Result<void> saved = call("do_ckpt", operations_.do_ckpt, static_cast<int>(pid_)); !saved) {
        unlink(written_.c_str());
        return saved.error();
    }
    if (Result<void> committed = commit(); !committed)
        return committed.error();
    capture::Outcome outcome;
    outcome.total_ns = outcome.stopped_ns = now_ns() - begun;
    struct stat status;
    if (stat(file_.c_str(), &status) != 0)
        return Error::from_errno(fmt::format("backend {}: {}", operations_.name, file_), errno);
    outcome.image.size = static_cast<uint64_t>(status.st_size);
    if (options_.then_signal != 0)
        kill(pid_, options_.then_signal);
    return outcome;
}

Result<Alive> Plugin::restart(const RestartRequest &request)
{
    if (request.fd >= 0)
        return Error(ENOTSUP, fmt::format("backend {} reads a file by its name: without -F",
                                          operations_.name));
    if (operations_.restart == nullptr)
        return Error(ENOTSUP, fmt::format("backend {} cannot restart", operations_.name));
    if (Result<void> named = call("set_filename", operations_.set_filename, file_.c_str()); !named)
        return named.error();
    int pid = 0;
    if (Result<void> done = call("restart", operations_.restart, &pid); !done)
        return done.error();
    if (pid <= 0)
        return Error(EPROTO, fmt::format("backend {}: restart returns no pid", operations_.name));
    Alive alive;
    alive.pid = pid;
    return alive;
}

Result<void> Plugin::after_restart(const Alive &alive)
{
    return call("after_restart", operations_.after_restart, static_cast<int>(alive.pid));
}

std::string directory()
{
    if (const char *given = sys::own_variable("CRYO_BACKENDS"))
        return given;
    return cli::library("cryo/backends");
}

bool may_be_a_name(std::string_view name)
{
    return !name.empty() && std::all_of(name.begin(), name.end(), [](unsigned char c) {
        return std::isalnum(c) != 0 || c == '_' || c == '-';
    });
}

} // namespace

Result<std::unique_ptr<Backend>> load_plugin(std::string_view name)
{
    if (!may_be_a_name(name))
        return Error(EINVAL, fmt::format("'{}' is not a valid name of a backend", name));
    const std::string path = fmt::format("{}/cryo-backend-{}.so", directory(), name);
    if (access(path.c_str(), F_OK) != 0)
        return Error(ENOENT, fmt::format("there is no backend {}: there are auto, kmod, user, "
                                         "criu, self, and plug-ins; {} does not exist",
                                         name, path));
    // Never unloaded: its functions may have left threads or handlers behind.
    void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr)
        return Error(ENOEXEC, fmt::format("backend {}: {}", name, dlerror()));
    using Entry = const cryo_backend_ops *();
    auto *entry = reinterpret_cast<Entry *>(dlsym(library, "cryo_backend"));
    const cryo_backend_ops *operations = entry != nullptr ? entry() : nullptr;
    if (operations == nullptr || operations->abi != CRYO_BACKEND_ABI ||
        operations->size < sizeof(cryo_backend_ops) || operations->name == nullptr)
        return Error(ENOEXEC, fmt::format("{}: is no backend for this release of Cryo "
                                          "(cryo_backend.h, interface {})",
                                          path, CRYO_BACKEND_ABI));
    return std::unique_ptr<Backend>(std::make_unique<Plugin>(*operations));
}

} // namespace cryo::backend
