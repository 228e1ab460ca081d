// SPDX-License-Identifier: Apache-2.0
//
// A backend saves one process and restores it. It consists of five functions (the interface of
// STFT's single-process checkpointers) and a name; callers need nothing else.
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
// A third-party backend is a plug-in behind a C interface: cryo_backend.h.
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
    std::vector<std::string> bases = {}; // images that the restarted one may be based on
    std::shared_ptr<Trust> trust = std::make_shared<Trust>(); // the owners whose images may be used
    restore::RestartOptions options;
    std::string library; // path of libcr_run.so
    int fd = -1;         // the image is open here; its file name is then only for messages
    std::shared_ptr<image::Snapshot> image = {}; // if it has been opened already
    std::function<void(std::string_view)> phase; // called as each phase ends
    std::function<void(uint64_t done, uint64_t total)> progress;
    std::function<void()> begins; // called before the program may run, and be seen to run
};

// A restored process: a child of the caller.
struct Alive : restore::Restarted {
    int64_t cut_realtime = 0; // when it was saved, nanoseconds of the real-time clock; 0: unknown
    std::vector<std::string> notices;
    std::vector<std::string> warnings; // as in restore::TreePlan
};

class Backend
{
  public:
    virtual ~Backend() = default;
    virtual std::string_view name() const = 0;

    // The image's file, existing or to be made. `file` in CheckpointOptions is ignored.
    virtual void set_filename(std::string file) = 0;
    // Prepares what can be prepared while the process still runs.
    virtual Result<void> before_ckpt(pid_t pid, const capture::CheckpointOptions &options) = 0;
    virtual Result<capture::Outcome> do_ckpt() = 0;
    virtual Result<Alive> restart(const RestartRequest &request) = 0;
    // Does what remains to be done once the process runs.
    virtual Result<void> after_restart(const Alive &alive) = 0;
};

enum class Purpose { checkpoint, restart };

// `wanted`: "auto", or the name of a backend or of a plug-in. `say` receives the choice, and the
// reason why no better one was possible.
Result<std::unique_ptr<Backend>> choose(std::string_view wanted, Purpose purpose,
                                        const std::function<void(std::string_view)> &say = {});

// For a request's image `file`, which is opened to see it: the backend that made the image, if only
// that one can restore it. With a plug-in, only the file's owner and mode are checked.
Result<std::unique_ptr<Backend>>
choose_for_image(std::string_view wanted, const std::string &file, RestartRequest &request,
                 const std::function<void(std::string_view)> &say = {});

} // namespace cryo::backend
