// SPDX-License-Identifier: Apache-2.0
// cr_checkpoint: saves running processes into a file.
#include "backend/backend.hpp"
#include "backend/criu.hpp"
#include "backend/criu_hook.hpp"
#include "base/owner_teller.hpp"
#include "capture/attach/attach.hpp"
#include "cli/command.hpp"
#include "cli/handle.hpp"
#include "cli/place.hpp"
#include "cli/requester.hpp"
#include "cli/text.hpp"
#include "enter.hpp"
#include "metrics/commands.hpp"
#include "options.hpp"
#include "protocol/attached.hpp"
#include "second.hpp"

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <fmt/format.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>

namespace {

double seconds(uint64_t ns)
{
    return static_cast<double>(ns) / 1e9;
}

// If the time limit cannot be checked because a call does not return (a
// disk, a reader of the image), this command ends, and the program resumes.
void limit_time(unsigned seconds)
{
    constexpr unsigned grace = 1; // for the regular way, which tells the callbacks why
    static const char text[] = "cr_checkpoint: it took longer than --time allows\n";
    if (seconds == 0)
        return;
    ::signal(SIGALRM, [](int) {
        cryo::cli::tell_requester(ETIME, 0);
        _exit(write(STDERR_FILENO, text, sizeof(text) - 1) < 0 ? EPIPE : ETIME);
    });
    alarm(seconds + grace);
}

cryo::Result<cryo::capture::Outcome> run(Options &options)
{
    if (cryo::Result<void> good = complete(options); !good)
        return good.error();
    cryo::capture::CheckpointOptions &capture = options.capture;
    capture.phase = options.talk.phases();
    if (options.attach) {
        const std::string library = cryo::cli::library(cryo::agent::attached_library);
        if (cryo::Result<void> there =
                cryo::capture::attach(options.id, capture, library, options.talk.remarks());
            !there)
            return there.error();
    }
    capture.early_look = true;
    capture.may_join = !options.rehearse;
    capture.progress = options.talk.progress(capture.file);
    cryo::Result<std::unique_ptr<cryo::backend::Backend>> chosen = cryo::backend::choose(
        options.common.backend, cryo::backend::Purpose::checkpoint, options.talk.remarks());
    if (!chosen)
        return chosen.error();
    (*chosen)->set_filename(capture.file);
    if (cryo::Result<void> ready = (*chosen)->before_ckpt(options.id, capture); !ready)
        return ready.error();
    options.used = (*chosen)->name();
    if (cryo::Result<void> same = cryo::cli::check_handle(options.handle, options.id); !same)
        return same.error();
    return (*chosen)->do_ckpt();
}

// If Cryo has no agent in the program, because it does not run
// under cr_run or is static, another backend may save it.
cryo::Error with_offer(const cryo::Error &error, const std::string &backend, bool attached)
{
    const bool closed = error.reason() == cryo::Reason::not_enterable;
    if ((!closed && error.reason() != cryo::Reason::no_agent) || backend == "criu")
        return error;
    const bool criu = cryo::backend::criu_would_work();
    if (!closed && !attached)
        return error.with_more(std::string("; --attach lets Cryo enter it while it runs") +
                               (criu ? ", and --backend=criu can save it as it is" : ""));
    if (criu)
        return error.with_more("; --backend=criu can save it");
    return closed
               ? error.with_more("; root can save it with --backend=criu where CRIU is installed")
               : error;
}

void tell(Options &options, const cryo::capture::Outcome &done)
{
    const std::string sentence =
        fmt::format("{}: {}, {:.1f} MiB; stood still for {:.1f} ms, done in {:.3f} s",
                    options.capture.file, cryo::cli::count_text(done.threads, "thread", "threads"),
                    static_cast<double>(done.image.size) / 1048576, seconds(done.stopped_ns) * 1e3,
                    seconds(done.total_ns));
    cryo::cli::Json said = {{"image", options.capture.file}, {"backend", options.used},
                            {"processes", done.processes},   {"threads", done.threads},
                            {"pages", done.pages},           {"snapshot", done.snapshot},
                            {"tries", done.tries},           {"bytes", done.image.size},
                            {"stopped_ns", done.stopped_ns}, {"rehearsed_ns", done.rehearsed_ns},
                            {"total_ns", done.total_ns}};
    if (!options.second.empty())
        said["second"] = options.second;
    // If the image goes to standard output, nothing else may be written there.
    options.talk.summary(sentence, std::move(said),
                         options.capture.fd == STDOUT_FILENO ? stderr : stdout);
}

// Tables of pages come and go. Memory given back to the kernel returns page by page, and each
// fault takes longer than all work on that page: so the heap is kept, in huge pages. Only its
// used part is present. If so much memory is not permitted, malloc() works as usual.
void have_memory_in_huge_pages()
{
    constexpr size_t room = 256 << 20;
    constexpr uintptr_t huge = 2 << 20;
    mallopt(M_MMAP_THRESHOLD, 32 << 20);
    mallopt(M_TRIM_THRESHOLD, room);
    mallopt(M_TOP_PAD, room);
    const auto before = reinterpret_cast<uintptr_t>(sbrk(0));
    void *volatile taken = malloc(1 << 20); // for which the heap grows
    free(taken);
    const auto after = reinterpret_cast<uintptr_t>(sbrk(0));
    mallopt(M_TOP_PAD, 128 << 10);
    const uintptr_t start = (before + huge - 1) / huge * huge;
    if (after > start)
        madvise(reinterpret_cast<void *>(start), after - start, MADV_HUGEPAGE);
}

// For Prometheus. What cannot be counted is said, and stops no checkpoint.
void count(const cryo::Result<cryo::metrics::CommandCount> &counter,
           const cryo::Result<cryo::capture::Outcome> &done)
{
    if (!counter)
        return cryo::cli::say("cr_checkpoint", counter.error().text());
    cryo::metrics::Done what = {.good = false};
    if (done)
        what = {.stopped_s = seconds(done->stopped_ns), .bytes = done->image.size};
    if (const cryo::Result<void> counted = counter->add(what); !counted)
        cryo::cli::say("cr_checkpoint", counted.error().text());
}

} // namespace

static int run(int argc, char **argv)
{
    if (std::optional<int> done = cryo::backend::CriuHook::answer_criu())
        return *done;
    have_memory_in_huge_pages();
    CLI::App app("Saves processes that run under cr_run. They go on unless told otherwise.",
                 "cr_checkpoint");
    Options options;
    add_options(app, options);
    cryo::cli::add_examples(
        app, {{"cr_checkpoint 412", "saves process 412 into context.412; it goes on"},
              {"cr_checkpoint --term -f image 412", "saves it into the file image, then ends it"},
              {"cr_checkpoint --attach 412", "saves it although it was not started under cr_run"},
              {"cr_checkpoint --delta -f image 412", "saves what has changed since the last one"}});
    if (std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;

    // If the terminal stopped this command, the program would stay stopped as
    // well. A reader of the image that goes away is an error like any other,
    // and so is a file that may not grow.
    for (int signal : {SIGTSTP, SIGTTIN, SIGTTOU, SIGPIPE, SIGXFSZ})
        ::signal(signal, SIG_IGN);
    ::signal(SIGCHLD, SIG_DFL); // the caller may have it ignored: then no end could be waited for

    // Before the namespaces of a program are entered, where the path may lead elsewhere.
    const auto counter = cryo::metrics::CommandCount::from_environment("cr_checkpoint");
    const pid_t asked = options.id;
    cryo::Fd teller;
    const cryo::Result<std::optional<int>> left =
        options.common.backend == "criu"
            ? std::optional<int>() // which saves them from outside
            : enter_namespaces(options.id, options.capture.scope, teller);
    if (!left)
        return options.talk.fail(left.error());
    if (*left)
        return **left;
    if (teller) {
        options.teller = teller.get();
        options.capture.files.owner_of = [from = teller.get()](int fd) {
            return cryo::ask_owner(from, fd);
        };
    }
    if (options.id != asked && options.file.empty() && options.directory.empty() && options.fd < 0)
        options.file = fmt::format("context.{}", asked);
    limit_time(options.capture.timeout_s);
    const cryo::Result<cryo::capture::Outcome> done = run(options);
    alarm(0);
    if (!options.rehearse)
        count(counter, done);
    if (!done)
        return options.talk.fail(with_offer(done.error(), options.common.backend, options.attach));
    cryo::cli::tell_requester(0, 0);
    options.talk.notices(done->notices);
    if (const cryo::Result<void> sent = send_second(options); !sent)
        return options.talk.fail(sent.error());
    tell(options, *done);
    return 0;
}

int main(int argc, char **argv)
{
    return cryo::cli::whole("cr_checkpoint", [&] { return run(argc, argv); });
}
