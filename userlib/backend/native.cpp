// SPDX-License-Identifier: Apache-2.0
#include "backend/native.hpp"

#include "backend/open_image.hpp"
#include "backend/outline.hpp"
#include "base/clock.hpp"
#include "restore/kept_ids.hpp"
#include "restore/restart.hpp"

#include <algorithm>
#include <cerrno>
#include <functional>
#include <optional>
#include <time.h>

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
    Result<Alive> restart_with(const image::Snapshot &image, const restore::RestartOptions &options,
                               const RestartRequest &request);
    int device() const { return device_ ? device_->fd() : -1; }
    void announce(uint32_t operation, uint32_t phase, int error, uint64_t bytes, pid_t target,
                  uint64_t total = 0);
    std::function<void(uint64_t, uint64_t)>
    announcing(uint32_t operation, pid_t target, std::function<void(uint64_t, uint64_t)> also);

    std::optional<Device> device_;
    std::string file_;
    pid_t pid_ = 0;
    capture::CheckpointOptions options_;
};

// Reports to listeners (generic netlink, family `cryo`). There may be none, and excess events are
// dropped: neither is a failure of this operation.
void Native::announce(uint32_t operation, uint32_t phase, int error, uint64_t bytes, pid_t target,
                      uint64_t total)
{
    if (!device_)
        return;
    cryo_event event = {};
    event.operation = operation;
    event.phase = phase;
    event.error = static_cast<uint32_t>(error);
    event.bytes_done = bytes;
    event.bytes_total = total != 0 ? total : bytes;
    event.target = static_cast<uint32_t>(target);
    device_->announce_raw(event);
}

// Reports progress to listeners as well: in steps of a twentieth, none for small amounts, and
// rarely enough not to use up the events that a user may send in a second. The expected total may
// be too low.
std::function<void(uint64_t, uint64_t)>
Native::announcing(uint32_t operation, pid_t target, std::function<void(uint64_t, uint64_t)> also)
{
    static constexpr uint64_t least = 16 << 20;
    static constexpr uint64_t steps = 20;
    static constexpr int64_t apart_ns = 250'000'000;
    if (!device_)
        return also;
    return [this, operation, target, also = std::move(also), next = uint64_t(0),
            not_before = int64_t(0)](uint64_t done, uint64_t total) mutable {
        if (also)
            also(done, total);
        const uint64_t step = std::max(total / steps, least);
        next = next == 0 ? step : next;
        if (done < next)
            return;
        next = done + step;
        const int64_t now = clock_ns(CLOCK_MONOTONIC);
        if (now < not_before)
            return;
        not_before = now + apart_ns;
        announce(operation, CRYO_PHASE_PROGRESS, 0, done, target, std::max(done, total));
    };
}

Result<void> Native::before_ckpt(pid_t pid, const capture::CheckpointOptions &options)
{
    pid_ = pid;
    options_ = options;
    options_.file = file_;
    options_.device = device();
    return {};
}

// An errno that the module accepts: libcr's own numbers exceed its range.
int as_errno(const Error &error)
{
    constexpr int max_errno = 4095;
    return error.code() > 0 && error.code() <= max_errno ? error.code() : EIO;
}

Result<capture::Outcome> Native::do_ckpt()
{
    options_.progress = announcing(CRYO_OP_CHECKPOINT, pid_, std::move(options_.progress));
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
    Result<std::shared_ptr<image::Snapshot>> image = open_image(request, file_);
    if (!image)
        return image.error();
    if (request.phase)
        request.phase("image verified");
    restore::RestartOptions options = request.options;
    options.device = device();
    options.trust = request.trust;
    Result<Alive> alive = restart_with(**image, options, request);
    if (alive || !options.prefer_pid || options.for_requester ||
        !restore::is_about_ids(alive.error()))
        return alive;
    options.none_kept = true; // an id that was free has been taken meanwhile
    return restart_with(**image, options, request);
}

Result<Alive> Native::restart_with(const image::Snapshot &image,
                                   const restore::RestartOptions &options,
                                   const RestartRequest &request)
{
    const auto phase = [&](std::string_view name) {
        if (request.phase)
            request.phase(name);
    };
    Result<std::unique_ptr<restore::TreePlan>> plan = restore::plan_restart(image, options);
    if (!plan)
        return plan.error();
    phase("planned; files open");
    const pid_t pid = (*plan)->processes.front().kin.pid;
    announce(CRYO_OP_RESTART, CRYO_PHASE_STARTED, 0, 0, pid);
    Result<restore::Restarted> done =
        restore::restart(**plan, request.library, device(),
                         {announcing(CRYO_OP_RESTART, pid, request.progress), request.begins});
    if (!done) {
        announce(CRYO_OP_RESTART, CRYO_PHASE_FAILED, as_errno(done.error()), 0, pid);
        return done.error();
    }
    for (restore::TreePlan::Process &process : (*plan)->processes) {
        if (process.plan)
            process.plan->replacements.keep_directories();
    }
    phase(options.rehearse ? "memory sent, compared, and given up" : "memory sent; alive");
    return Alive{std::move(*done), (*plan)->cut_realtime, std::move((*plan)->notices),
                 std::move((*plan)->warnings)};
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
    // Only choosing ids needs write access. A checkpoint passes the descriptor to the program,
    // which may be another user's: it would keep that right.
    const bool chooses = purpose == Purpose::restart;
    Result<Device> device =
        Device::open(chooses ? Device::Access::ReadWrite : Device::Access::ReadOnly);
    if (chooses && !device && (device.error().code() == EACCES || device.error().code() == EPERM))
        device = Device::open(Device::Access::ReadOnly);
    if (!device)
        return device.error();
    const uint64_t needed =
        purpose == Purpose::checkpoint ? CRYO_FEATURE_DUMP : CRYO_FEATURE_RESTORE;
    if (device->has(CRYO_FEATURE_FILTERED))
        return Error(EPERM, std::string(Device::path) +
                                ": the module does not save or restore under a seccomp filter, "
                                "and this process is under one (a container's, or a service's "
                                "SystemCallFilter=); use --backend=user, or run it without the "
                                "filter");
    if (!device->has(needed))
        return Error(ENOTSUP, std::string(Device::path) +
                                  ": the module is older than this program and cannot save or "
                                  "restore; load the one that came with it");
    return device;
}

} // namespace cryo::backend
