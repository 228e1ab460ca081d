// SPDX-License-Identifier: Apache-2.0
#include "backend/native.hpp"

#include "image/base_finder.hpp"
#include "image/snapshot.hpp"
#include "restore/restart.hpp"

#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/format.h>
#include <optional>
#include <sys/stat.h>

namespace cryo::backend {

namespace {

class Native : public Backend
{
  public:
    explicit Native(std::optional<Device> device) : device_(std::move(device)) {}

    std::string_view name() const override { return device_ ? "kmod" : "user"; }
    void set_filename(std::string file) override { file_ = std::move(file); }
    Result<void> before_ckpt(pid_t pid, const capture::CheckpointOptions &options) override;
    Result<capture::Outcome> do_ckpt() override;
    Result<Alive> restart(const RestartRequest &request) override;
    Result<void> after_restart(const Alive &alive) override;

  private:
    int device() const { return device_ ? device_->fd() : -1; }
    void announce(uint32_t operation, uint32_t phase, int error, uint64_t bytes, pid_t target);

    std::optional<Device> device_;
    std::string file_;
    pid_t pid_ = 0;
    capture::CheckpointOptions options_;
};

// A restart jumps about in the image: one that comes down a pipe is kept in a file without a name.
Result<Fd> spool(int from)
{
    const char *place = getenv("TMPDIR");
    const std::string directory = place != nullptr && *place != 0 ? place : "/tmp";
    Fd file(open(directory.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
    if (!file)
        return Error::from_errno(
            fmt::format("{}: keeping the image there (TMPDIR chooses another place)", directory),
            errno);
    std::vector<char> buffer(1 << 20);
    for (;;) {
        const ssize_t n = read(from, buffer.data(), buffer.size());
        if (n == 0)
            return file;
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return Error::from_errno("reading the image", errno);
        for (ssize_t at = 0; at < n;) {
            const ssize_t written =
                write(file.get(), buffer.data() + at, static_cast<size_t>(n - at));
            if (written < 0)
                return Error::from_errno(directory + ": keeping the image there", errno);
            at += written;
        }
    }
}

Result<std::unique_ptr<image::Snapshot>> open_descriptor(int fd, const std::string &name,
                                                         image::OpenOptions options)
{
    struct stat status;
    Fd own(fcntl(fd, F_DUPFD_CLOEXEC, 3));
    if (!own || fstat(own.get(), &status) != 0)
        return Error::from_errno(name, errno);
    if (!S_ISREG(status.st_mode)) {
        Result<Fd> kept = spool(own.get());
        if (!kept)
            return kept.error().within(name);
        own = std::move(*kept);
    }
    return image::Snapshot::open(std::move(own), name, std::move(options));
}

// Tells listeners (generic netlink, family `cryo`). Nobody may listen, and too many events are
// dropped: neither is our failure.
void Native::announce(uint32_t operation, uint32_t phase, int error, uint64_t bytes, pid_t target)
{
    if (!device_)
        return;
    cryo_event event = {};
    event.operation = operation;
    event.phase = phase;
    event.error = static_cast<uint32_t>(error);
    event.bytes_done = event.bytes_total = bytes;
    event.target = static_cast<uint32_t>(target);
    device_->announce_raw(event);
}

Result<void> Native::before_ckpt(pid_t pid, const capture::CheckpointOptions &options)
{
    pid_ = pid;
    options_ = options;
    options_.file = file_;
    options_.device = device();
    return {};
}

// An errno that the module takes: libcr's own numbers are above it.
int as_errno(const Error &error)
{
    constexpr int max_errno = 4095;
    return error.code() > 0 && error.code() <= max_errno ? error.code() : EIO;
}

Result<capture::Outcome> Native::do_ckpt()
{
    announce(CRYO_OP_CHECKPOINT, CRYO_PHASE_STARTED, 0, 0, pid_);
    Result<capture::Outcome> done = capture::checkpoint(pid_, options_);
    if (done)
        announce(CRYO_OP_CHECKPOINT, CRYO_PHASE_FINISHED, 0, done->image.size, pid_);
    else
        announce(CRYO_OP_CHECKPOINT, CRYO_PHASE_FAILED, as_errno(done.error()), 0, pid_);
    return done;
}

Result<Alive> Native::restart(const RestartRequest &request)
{
    const image::BaseFinder bases(request.bases);
    Result<std::unique_ptr<image::Snapshot>> image =
        request.fd >= 0 ? open_descriptor(request.fd, file_, {.find_base = bases.beside(file_)})
                        : image::Snapshot::open(file_, {.find_base = bases.beside(file_)});
    if (!image)
        return image.error();
    const auto phase = [&](std::string_view name) {
        if (request.phase)
            request.phase(name);
    };
    phase("image verified");
    restore::RestartOptions options = request.options;
    options.device = device();
    Result<std::unique_ptr<restore::TreePlan>> plan = restore::plan_restart(**image, options);
    if (!plan)
        return plan.error();
    phase("planned; files open");
    const pid_t pid = (*plan)->processes.front().kin.pid;
    announce(CRYO_OP_RESTART, CRYO_PHASE_STARTED, 0, 0, pid);
    Result<restore::Restarted> done =
        restore::restart(**plan, request.library, device(), request.progress);
    if (!done) {
        announce(CRYO_OP_RESTART, CRYO_PHASE_FAILED, as_errno(done.error()), 0, pid);
        return done.error();
    }
    phase("memory sent; alive");
    return Alive{std::move(*done), (*plan)->cut_realtime, std::move((*plan)->notices)};
}

Result<void> Native::after_restart(const Alive &alive)
{
    announce(CRYO_OP_RESTART, CRYO_PHASE_FINISHED, 0, alive.bytes, alive.pid);
    return {};
}

} // namespace

std::unique_ptr<Backend> make_user()
{
    return std::make_unique<Native>(std::nullopt);
}

std::unique_ptr<Backend> make_kmod(Device device)
{
    return std::make_unique<Native>(std::move(device));
}

Result<Device> find_module(Purpose purpose)
{
    // Choosing ids needs the right to write; everything else does not.
    Result<Device> device = Device::open(Device::Access::ReadWrite);
    if (!device && (device.error().code() == EACCES || device.error().code() == EPERM))
        device = Device::open(Device::Access::ReadOnly);
    if (!device)
        return device.error();
    const uint64_t needed =
        purpose == Purpose::checkpoint ? CRYO_FEATURE_DUMP : CRYO_FEATURE_RESTORE;
    if (!device->has(needed))
        return Error(ENOTSUP, std::string(Device::path) +
                                  ": the module is older than this program and cannot save or "
                                  "restore; load the one that came with it");
    return device;
}

} // namespace cryo::backend
