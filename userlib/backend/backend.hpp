// SPDX-License-Identifier: Apache-2.0
//
// A backend: what saves one process and brings it back. Five functions (the interface of STFT's
// single-process checkpointers), a name, and nothing else that callers know of.
//
//     Result<std::unique_ptr<Backend>> backend = choose("auto", Purpose::checkpoint, say);
//     (*backend)->set_filename("context.412");
//     (*backend)->before_ckpt(412, options);
//     Result<capture::Outcome> saved = (*backend)->do_ckpt();
//
//     (*backend)->set_filename("context.412");
//     Result<Alive> alive = (*backend)->restart(request);
//     (*backend)->after_restart(*alive);
//
// A backend of somebody else's is a plug-in behind a C interface: cryo_backend.h.
#pragma once

#include "capture/checkpoint.hpp"
#include "restore/restart.hpp"

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace cryo::backend {

struct RestartRequest {
    std::vector<std::string> bases = {}; // images that the one to be restarted may be based on
    std::shared_ptr<Trust> trust = std::make_shared<Trust>(); // whose images are restarted
    restore::RestartOptions options;
    std::string library; // path of libcr_run.so
    int fd = -1;         // the image is open here; its file name is for messages then
    std::shared_ptr<image::Snapshot> image = {}; // where it has been opened already
    std::function<void(std::string_view)> phase; // told as each phase ends
    std::function<void(uint64_t done, uint64_t total)> progress;
    std::function<void()> begins; // the program may live from here on, before anybody hears of it
};

// A process that is back: a child of the caller.
struct Alive : restore::Restarted {
    int64_t cut_realtime = 0; // when it was saved, nanoseconds of the real-time clock; 0: not known
    std::vector<std::string> notices;
};

class Backend
{
  public:
    virtual ~Backend() = default;
    virtual std::string_view name() const = 0;

    // Where the image is, or is to be. `file` in CheckpointOptions is not looked at.
    virtual void set_filename(std::string file) = 0;
    // What can be made ready while the process still runs.
    virtual Result<void> before_ckpt(pid_t pid, const capture::CheckpointOptions &options) = 0;
    virtual Result<capture::Outcome> do_ckpt() = 0;
    virtual Result<Alive> restart(const RestartRequest &request) = 0;
    // What remains to be done when the process lives.
    virtual Result<void> after_restart(const Alive &alive) = 0;
};

enum class Purpose { checkpoint, restart };

// `wanted`: "auto", or the name of a backend or of a plug-in. `say` is told what was chosen, and
// why not a better one.
Result<std::unique_ptr<Backend>> choose(std::string_view wanted, Purpose purpose,
                                        const std::function<void(std::string_view)> &say = {});

// For the image `file` of a request, which is opened for that: the backend that made it, where no
// other can restore it. A plug-in's image is not ours to look at.
Result<std::unique_ptr<Backend>>
choose_for_image(std::string_view wanted, const std::string &file, RestartRequest &request,
                 const std::function<void(std::string_view)> &say = {});

} // namespace cryo::backend
