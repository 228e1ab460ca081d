// SPDX-License-Identifier: Apache-2.0
#include "keeper/settings.hpp"

#include "base/clock.hpp"
#include "base/path.hpp"
#include "base/printable.hpp"
#include "elsewhere/job_place.hpp"
#include "keeper/remote_series.hpp"
#include "keeper/slurm.hpp"
#include "server/url.hpp"

#include <cerrno>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <fmt/format.h>
#include <map>
#include <sys/stat.h>
#include <time.h>
#include <tuple>
#include <unistd.h>

namespace cryo::keeper {

namespace {

constexpr double default_overhead = 1; // percent, with --interval=auto

CLI::AsNumberWithUnit as_seconds()
{
    const std::map<std::string, double> units = {{"ms", 0.001}, {"s", 1},    {"m", 60},
                                                 {"min", 60},   {"h", 3600}, {"d", 86400}};
    return CLI::AsNumberWithUnit(units, CLI::AsNumberWithUnit::CASE_SENSITIVE, "TIME");
}

// The end that Slurm announces; 0: none. A job starts all the same where Slurm does not tell it,
// because its user has the interval still.
Result<double> announced(Settings &settings)
{
    if (!slurm::in_job())
        return Error(EINVAL, "auto: no batch system that Cryo knows has started this (there is no "
                             "SLURM_JOB_ID); name the time that is left");
    const slurm::End end = slurm::end_of_job();
    if (!end.trouble.empty())
        settings.notices.push_back(fmt::format(
            "--before-deadline=auto: Slurm does not tell when the job ends ({}): no checkpoint is "
            "made for the deadline; name the time that is left, to have one",
            end.trouble));
    else if (end.at == 0)
        settings.notices.emplace_back("--before-deadline=auto: the job has no time limit");
    return end.at;
}

// A time from now on, or a moment as @SECONDS since 1970.
Result<double> moment(const std::string &text)
{
    if (text.starts_with('@')) {
        double value = 0;
        const char *last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data() + 1, last, value);
        if (error != std::errc() || end != last)
            return Error(EINVAL, text + ": is no number of seconds since 1970");
        return value;
    }
    const Result<double> left = duration(text);
    if (!left)
        return left.error();
    return static_cast<double>(clock_ns(CLOCK_REALTIME)) / 1e9 + *left;
}

// Where images are copied to, if that is a URL.
Result<void> complete_url(Settings &settings)
{
    std::string &second = settings.second;
    if (server::scheme_of(second).empty())
        return {};
    Result<std::string> place = RemoteSeries::place(second);
    if (!place)
        return place.error().within("--second");
    std::string &delta = settings.common.delta;
    if (delta != "auto" && delta != "none")
        return Error(ENOTSUP, "--second: a restart from there takes whole images, none of "
                              "--delta; leave that out, or copy to a directory");
    delta = "none";
    second = *place;
    return {};
}

// Where the snapshots of a job are sent to.
Result<void> complete_job_place(Settings &settings)
{
    if (settings.second.empty())
        return {};
    if (!elsewhere::JobPlace::is_meant(settings.second))
        return Error(ENOTSUP, "--second: snapshots of MPI jobs are sent to cryo:// or s3://, not "
                              "to a directory; name with --into a directory that all nodes see");
    const Result<elsewhere::JobPlace> place = elsewhere::JobPlace::parse(settings.second);
    if (!place)
        return place.error().within("--second");
    settings.second = place->text();
    return {};
}

// `option` names the directory.
Result<std::string> make_directory(const std::string &path, const char *option, bool &was_made)
{
    const std::string all = absolute_path(path);
    if (!is_utf8(all)) // neither the keeper nor its state could have the name
        return Error(EILSEQ,
                     fmt::format("{}: is not UTF-8; choose another {} directory", all, option));
    char whole[PATH_MAX];
    was_made = mkdir(path.c_str(), 0700) == 0;
    if (!was_made && errno != EEXIST)
        return Error::from_errno(path, errno).within("a directory for automatic checkpoints");
    if (realpath(path.c_str(), whole) == nullptr)
        return Error::from_errno(path, errno);
    struct stat status;
    if (stat(whole, &status) != 0 || !S_ISDIR(status.st_mode))
        return Error(ENOTDIR, path + ": is no directory for automatic checkpoints");
    if (access(whole, W_OK | X_OK) != 0)
        return Error::from_errno(path, errno).within("a directory for automatic checkpoints");
    return std::string(whole);
}

} // namespace

Result<double> duration(const std::string &text)
{
    std::string number = text;
    double value = 0;
    try {
        // CLI11 would accept "s" alone
        if (number.find_first_of("0123456789") == 0 && as_seconds()(number).empty())
            std::from_chars(number.data(), number.data() + number.size(), value);
    } catch (const CLI::ValidationError &) {
        value = 0;
    }
    if (!(value > 0))
        return Error(EINVAL, fmt::format("{}: is not a time span such as 90s, 15m or 1.5h", text));
    return value;
}

void add_options(CLI::App &app, Settings &settings)
{
    constexpr const char *group = "Automatic checkpoints";
    auto *interval = app.add_option("--interval", settings.interval,
                                    "Save the program at this interval: 60s, 5m, 1h, or auto (the "
                                    "interval that costs least)")
                         ->type_name("TIME")
                         ->group(group);
    const auto add = [&](const char *name, auto &value, const char *help) {
        return app.add_option(name, value, help)->group(group)->needs(interval);
    };
    add("--into", settings.directory, "Where the images go")->type_name("DIRECTORY");
    add("--keep", settings.keep, "Images that stay, besides those that they need (2)")
        ->check(CLI::Range(1, 1000000));
    for (CLI::Option *common : cli::add_common_options(app, settings.common, cli::Command::keeper))
        common->group(group)->needs(interval);
    add("--max-overhead", settings.max_overhead,
        "Lengthen the interval so that checkpoints take no more than so many percent of the time "
        "(with auto: 1)")
        ->transform(CLI::Validator(
            [](std::string &text) {
                if (text.ends_with('%'))
                    text.pop_back();
                return std::string();
            },
            "PERCENT"))
        ->check(CLI::Range(0.001, 100.0));
    add("--failure-interval", settings.failure_interval,
        "The expected time between failures of the machine, until Cryo has measured it (1d)")
        ->transform(as_seconds());
    add("--before-deadline", settings.before,
        "Make the last one in time before this: the time that is left, @SECONDS since 1970, or "
        "auto (what Slurm says)")
        ->type_name("TIME");
    auto *second = add("--second", settings.second,
                       "Copy the images to this directory while the program goes on, to a server "
                       "(cr_server), cryo://HOST[:PORT]/SERIES, or into an object store "
                       "(cr_store), s3://BUCKET/SERIES")
                       ->type_name("DIRECTORY");
    add("--bandwidth", settings.bandwidth, "At most this many bytes a second, such as 100M")
        ->transform(CLI::AsSizeValue(false))
        ->needs(second);
    add("--metrics", settings.metrics,
        "Keep a file for Prometheus in this directory of yours, which node_exporter reads")
        ->type_name("DIRECTORY");
}

std::vector<std::string> words_of(const Settings &settings)
{
    std::vector<std::string> words = {
        "--interval=" + settings.interval, "--into=" + settings.directory,
        fmt::format("--keep={}", settings.keep),
        fmt::format("--failure-interval={}s", settings.failure_interval)};
    if (settings.max_overhead > 0)
        words.push_back(fmt::format("--max-overhead={}", settings.max_overhead));
    if (settings.deadline > 0)
        words.push_back(fmt::format("--before-deadline=@{}", settings.deadline));
    if (!settings.second.empty())
        words.push_back("--second=" + settings.second);
    if (settings.bandwidth > 0)
        words.push_back(fmt::format("--bandwidth={}", settings.bandwidth));
    if (!settings.metrics.empty())
        words.push_back("--metrics=" + settings.metrics);
    const std::vector<std::string> common = cli::words_of(settings.common, cli::Command::keeper);
    words.insert(words.end(), common.begin(), common.end());
    return words;
}

Result<void> complete(Settings &settings, const std::string &directory)
{
    if (settings.interval != "auto") {
        const Result<double> seconds = duration(settings.interval);
        if (!seconds)
            return seconds.error().within("--interval");
        settings.interval_s = *seconds;
    } else if (settings.max_overhead == 0) {
        settings.max_overhead = default_overhead;
    }
    if (!settings.before.empty()) {
        const Result<double> deadline =
            settings.before == "auto" ? announced(settings) : moment(settings.before);
        if (!deadline)
            return deadline.error().within("--before-deadline");
        settings.deadline = *deadline;
    }
    if (Result<void> good = settings.mpi ? complete_job_place(settings) : complete_url(settings);
        !good)
        return good;
    if (settings.directory.empty())
        settings.directory = directory;
    for (const auto &[path, option, was_made] :
         {std::tuple(&settings.directory, "--into", &settings.made_directory),
          std::tuple(&settings.second, "--second", &settings.made_second)}) {
        if (path->empty() || !server::scheme_of(*path).empty())
            continue;
        Result<std::string> made = make_directory(*path, option, *was_made);
        if (!made)
            return made.error();
        *path = *made;
    }
    if (settings.directory == settings.second)
        return Error(EINVAL, settings.second + ": is both the first directory and the second");
    if (!settings.metrics.empty())
        settings.metrics = absolute_path(settings.metrics); // the keeper opens it, from elsewhere
    return {};
}

} // namespace cryo::keeper
