// SPDX-License-Identifier: Apache-2.0
#include "keeper/keeper.hpp"
#include "base/clock.hpp"
#include "base/print.hpp"

#include "cli/error_json.hpp"
#include "cli/text.hpp"
#include "look/members.hpp"
#include "server/url.hpp"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <csignal>
#include <fcntl.h>
#include <filesystem>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <fstream>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

namespace cryo::keeper {

namespace {

using nlohmann::json;

namespace fs = std::filesystem;

constexpr double again_s = 1; // retry of a failed checkpoint near the deadline

double realtime_now()
{
    return static_cast<double>(clock_ns(CLOCK_REALTIME)) / 1e9;
}

double seconds(const json &object, const char *name)
{
    return static_cast<double>(object.value(name, uint64_t{0})) / 1e9;
}

// Parses the last line of a command's output: its result, or its error.
json last_object(const std::string &output)
{
    const size_t end = output.find_last_not_of('\n');
    if (end == std::string::npos)
        return {};
    const size_t begin = output.rfind('\n', end);
    const std::string line = output.substr(begin == std::string::npos ? 0 : begin + 1);
    return json::parse(line, nullptr, false);
}

Error failure(const Done &done, const json &said)
{
    if (said.is_object() && said.contains("error") && said["error"].is_object())
        return cli::error_from(said["error"]);
    std::string text = done.messages;
    while (text.ends_with('\n'))
        text.pop_back();
    if (text.empty())
        text = fmt::format("ended with status {}", done.status);
    return {EIO, text};
}

} // namespace

Keeper::Keeper(Settings settings, pid_t pid, Fd program)
    : settings_(std::move(settings)), pid_(pid), program_(std::move(program)),
      series_(settings_.directory), schedule_(settings_), born_(monotonic_now())
{
    if (settings_.mpi && !settings_.second.empty()) {
        if (const Result<elsewhere::JobPlace> place = elsewhere::JobPlace::parse(settings_.second))
            job_place_ = *place;
        if (job_place_)
            flusher_.emplace(series_, *job_place_, settings_.bandwidth);
    } else if (!server::scheme_of(settings_.second).empty()) {
        remote_ = RemoteSeries::at(settings_.second, settings_.bandwidth);
        flusher_.emplace(series_, remote_);
    } else if (!settings_.second.empty()) {
        second_.emplace(settings_.second);
        flusher_.emplace(series_, *second_, settings_.bandwidth);
    }
}

Result<void> Keeper::prepare()
{
    Result<State> state = State::take(settings_.directory);
    if (!state)
        return state.error();
    state_.emplace(std::move(*state));
    if (second_) {
        Result<State> second = State::take(settings_.second);
        if (!second)
            return second.error();
        second_state_.emplace(std::move(*second));
        if (Result<void> good = check_second(); !good)
            return good;
    }
    if (Result<void> good = check_images(); !good)
        return good;
    if (Result<void> good = job_place_ ? check_job_place() : check_remote(); !good)
        return good;
    if (Result<void> good = learn_images(); !good)
        return good;
    name_series();
    ran_before_ = state_->get("ran_s", 0.0);
    if (!settings_.image.empty())
        state_->set("failures", state_->get("failures", 0) + 1);
    if (!settings_.metrics.empty()) {
        Result<Metrics> metrics =
            Metrics::open(settings_.metrics, pid_, state_->get("failures", 0U));
        if (!metrics)
            return metrics.error();
        metrics_.emplace(std::move(*metrics));
    }
    schedule_.set_failure_interval(state_->failure_interval(settings_.failure_interval));
    const Result<std::string> newest = series_.newest();
    if (!newest)
        return newest.error();
    base_ = fs::path(settings_.image).parent_path() == settings_.directory
                ? fs::path(settings_.image).filename().string()
                : *newest;

    sigset_t mask;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigaddset(&mask, SIGTERM);
    sigprocmask(SIG_SETMASK, &mask, nullptr);
    signals_ = Fd(signalfd(-1, &mask, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!signals_)
        return Error::from_errno("signalfd", errno);
    return {};
}

void Keeper::note_image(const std::string &name)
{
    const Result<std::string> id = series_.id_of(name);
    if (!id || id->empty())
        return; // not noted, so it is never pruned
    Images images = state_->images();
    images[name] = *id;
    state_->set_images(images);
    state_->count(name);
}

void Keeper::note_copies()
{
    Images images = second_state_->images();
    images.merge(state_->images());
    const Result<Images> there = second_->still_there(images);
    Result<void> noted = there ? Result<void>() : there.error();
    if (there) {
        second_state_->set_images(*there);
        noted = second_state_->save();
    }
    if (!noted) // the list that flush() saved remains in use
        note(noted.error().text());
}

// For comparisons and messages; "": unknown.
std::string Keeper::newest_in(const Series &series) const
{
    const Result<std::string> name = series.newest();
    return name ? *name : std::string();
}

void Keeper::note(const std::string &sentence) const
{
    const std::string path = settings_.directory + "/keeper.log";
    std::ofstream log(path, std::ios::app);
    const time_t now = time(nullptr);
    log << fmt::format("{:%Y-%m-%dT%H:%M:%SZ} {}\n", fmt::gmtime(now), printable_message(sentence));
}

// Reports on the program's standard error as well, but the same warning only once.
void Keeper::warn(const Error &error)
{
    note(error.text());
    // A remark, as on the number and duration of attempts, differs each time, and is not compared.
    if (error.text_without_remark() == warned_)
        return;
    warned_ = error.text_without_remark();
    tell(error.text());
}

void Keeper::tell(const std::string &sentence)
{
    print(stderr, "cryo: automatic checkpoint: {}\n", printable_message(sentence));
    fflush(stderr);
}

void Keeper::remember()
{
    state_->set("pid", pid_);
    state_->set("keeper", getpid());
    state_->set("ran_s", ran_before_ + monotonic_now() - born_);
    state_->set("interval_s", schedule_.interval());
    state_->set("failure_interval_s", state_->failure_interval(settings_.failure_interval));
    if (Result<void> saved = state_->save(); !saved)
        warn(saved.error());
}

// For Prometheus. A program that has ended meanwhile may have left its id to another one.
void Keeper::publish()
{
    if (!metrics_)
        return;
    metrics_->name_command(command_of(pid_));
    pollfd ended = {program_.get(), POLLIN, 0};
    if (poll(&ended, 1, 0) != 0)
        return;
    const Result<void> written = metrics_->write();
    if (!written) {
        note(written.error().text());
        if (!publishing_fails_)
            tell(written.error().text());
    }
    publishing_fails_ = !written;
}

Keeper::Reason Keeper::wait_until(double when)
{
    for (;;) {
        const double left = when - monotonic_now();
        if (left <= 0)
            return Reason::due;
        pollfd ready[] = {{program_.get(), POLLIN, 0},
                          {signals_.get(), POLLIN, 0},
                          {flusher_ && flusher_->active() ? flusher_->fd() : -1, POLLIN, 0}};
        const int got =
            poll(ready, std::size(ready), static_cast<int>(std::min(left * 1e3 + 1, 1e9)));
        if (got < 0 && errno != EINTR)
            return Reason::ended;
        if (got <= 0)
            continue;
        if (ready[0].revents != 0)
            return Reason::ended;
        if (ready[2].revents != 0)
            flushed();
        signalfd_siginfo info;
        if (ready[1].revents != 0 && read(signals_.get(), &info, sizeof(info)) == sizeof(info)) {
            ending_ = ending_ || info.ssi_signo == SIGTERM;
            return Reason::asked;
        }
    }
}

std::vector<std::string> Keeper::image_command(const std::string &name) const
{
    std::vector<std::string> words = {"cr_checkpoint", "--noclobber", "-f", series_.path(name)};
    struct stat status;
    if (settings_.common.delta != "none" && !base_.empty() &&
        stat(series_.path(base_).c_str(), &status) == 0)
        words.insert(words.end(), {"--base", series_.path(base_)});
    return words;
}

std::vector<std::string> Keeper::snapshot_command() const
{
    // What is being copied stays.
    const unsigned more = flusher_ && flusher_->active() ? made_meanwhile_ + 1 : 0;
    return {"ompi-checkpoint",
            "--where",
            settings_.directory,
            "--name",
            reference_name,
            "--keep",
            std::to_string(settings_.keep + more)};
}

Result<Cost> Keeper::take(const std::string &name)
{
    std::vector<std::string> words = settings_.mpi ? snapshot_command() : image_command(name);
    words.front() = settings_.commands + "/" + words.front();
    const std::vector<std::string> common = cli::words_of(
        settings_.common, settings_.mpi ? cli::Command::job : cli::Command::checkpoint);
    words.insert(words.end(), common.begin(), common.end());
    // Commands inherit the handle: the program may end, and its id be another one's, before they
    // run.
    words.insert(words.end(),
                 {"--pidfd", std::to_string(program_.get()), "--json", std::to_string(pid_)});
    const Done done = run(std::move(words));
    const json said = last_object(done.output);
    if (done.status != 0 || !said.is_object())
        return failure(done, said);
    base_ = name;
    if (settings_.mpi)
        made_meanwhile_++;
    else
        note_image(name);
    const auto bytes = said.value("bytes", uint64_t{0});
    const double stopped = seconds(said, settings_.mpi ? "longest_stop_ns" : "stopped_ns");
    const double share = 1.0 / static_cast<double>(std::max(1L, sysconf(_SC_NPROCESSORS_ONLN)));
    // The program is stopped, and later shares the processors with the process that writes.
    const Cost cost = {.lost = stopped + done.cpu_s * share, .total = done.elapsed_s};
    note(fmt::format("{}: {}, stood still for {:.1f} ms, on the disk after {:.2f} s",
                     settings_.mpi
                         ? fmt::format("{} {}", said.value("reference", ""), said.value("seq", 0))
                         : name,
                     cli::size_text(bytes), stopped * 1e3, cost.total));
    if (metrics_)
        metrics_->saved(stopped, bytes, realtime_now());
    return cost;
}

void Keeper::tidy()
{
    if (settings_.mpi)
        return; // ompi-checkpoint does this itself
    Result<void> good = series_.point_latest();
    if (good) {
        Images images = state_->images();
        good = series_.prune(settings_.keep, images,
                             flusher_ ? flusher_->copying() : std::set<std::string>());
        state_->set_images(images);
    }
    if (!good)
        warn(good.error());
}

void Keeper::flush()
{
    if (!flusher_)
        return;
    lacks_image_ = flusher_->active();
    if (lacks_image_)
        return;
    if (job_place_)
        return flush_job();
    if (remote_)
        return flush_to_remote();
    const Images images = announce_copies();
    begin_copying(images, {state_->lock(), second_state_->lock()});
}

void Keeper::begin_copying(const Images &images, const std::vector<int> &locks)
{
    const Result<void> begun = flusher_->begin(settings_.keep, images, locks);
    lacks_image_ = !begun;
    if (!begun)
        warn(begun.error());
}

// In the second directory's list, before they are copied.
Images Keeper::announce_copies()
{
    Images images = second_state_->images();
    images.merge(state_->images());
    second_state_->set_images(images);
    static_cast<void>(second_state_->save()); // if that fails, copying reports why
    return images;
}

void Keeper::flushed()
{
    const std::set<std::string> copied = flusher_->copying();
    const Result<double> took = flusher_->end();
    tidy(); // what had to stay for the copying
    if (!took) {
        if (remote_ && took.error().code() == EEXIST)
            note_not_sent(copied);
        copying_failed(took.error());
        return;
    }
    copying_fails_ = false;
    schedule_.flushed(*took);
    if (job_place_)
        return job_flushed(*took);
    if (remote_)
        note_sent();
    else
        note_copies();
    const std::string there = newest_there();
    note(fmt::format("{}: {} is complete after {:.2f} s", settings_.second, there, *took));
    if (there != newest_in(series_))
        flush(); // a new image was made meanwhile
}

// Checkpoints continue, and the error names another file each time: it is reported only once.
void Keeper::copying_failed(const Error &error)
{
    lacks_image_ = error.code() != EEXIST; // else another try finds the same
    const std::string text = error.within("copying to " + settings_.second).text();
    note(text);
    if (!copying_fails_)
        tell(text);
    copying_fails_ = true;
}

bool Keeper::save(Reason reason)
{
    const Result<std::string> first = series_.next();
    // The second directory may be unavailable for a while.
    const Result<std::string> after = second_   ? second_->next()
                                      : remote_ ? Series::after(remote_newest_)
                                                : first;
    const Result<Cost> cost =
        first ? take(after ? std::max(*first, *after) : *first) : Result<Cost>(first.error());
    if (!cost) {
        // If the program has just ended, there is nothing to report. One that gives its memory back
        // cannot be saved any more, a while before the kernel tells of its end.
        const bool is_ending = capture::has_ended(pid_);
        pollfd ended = {program_.get(), POLLIN, 0};
        if (!is_ending && poll(&ended, 1, 0) == 0) {
            warn(cost.error());
            if (metrics_)
                metrics_->failed();
            publish();
        }
        return false;
    }
    warned_.clear();
    schedule_.measured(*cost);
    if (reason == Reason::deadline)
        note("that was the last one before the deadline");
    tidy();
    flush();
    remember();
    publish();
    return true;
}

double Keeper::next_due(double begun, double ended) const
{
    double due = ended + schedule_.pause(ended - begun);
    if (settings_.deadline == 0)
        return due;
    const double last = monotonic_now() + settings_.deadline - realtime_now() - schedule_.reserve();
    // A checkpoint that would still run when the last one must begin is skipped.
    return due + schedule_.reserve() / 2 > last ? std::max(last, ended) : due;
}

void Keeper::work()
{
    double due = next_due(born_, born_);
    for (;;) {
        const Reason woken = wait_until(last_made_ ? HUGE_VAL : due);
        if (woken == Reason::ended)
            break;
        const double begun = monotonic_now();
        const bool late =
            settings_.deadline != 0 && realtime_now() + schedule_.reserve() >= settings_.deadline;
        const bool saved = save(late ? Reason::deadline : woken);
        if (ending_)
            break;
        const double ended = monotonic_now();
        if (late && (saved || realtime_now() >= settings_.deadline))
            last_made_ = true;
        due = late && !saved ? ended + again_s : next_due(begun, ended);
    }
    finish();
}

} // namespace cryo::keeper
