// SPDX-License-Identifier: Apache-2.0
// cr_run: starts a program so that it can be saved.
#include "asan.hpp"
#include "base/print.hpp"
#include "baseline.hpp"
#include "cli/command.hpp"
#include "cli/place.hpp"
#include "cli/unknown_option.hpp"
#include "coord/launch.hpp"
#include "coord/new_hosts.hpp"
#include "coord/parameters.hpp"
#include "coord/place.hpp"
#include "coord/within.hpp"
#include "inherited.hpp"
#include "keeper/launch.hpp"
#include "look/filters.hpp"
#include "mpi_family.hpp"
#include "obstacles.hpp"
#include "recover/supervisor.hpp"
#include "sys/own_variable.hpp"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fmt/format.h>
#include <unistd.h>

namespace {

using cryo::Error;

constexpr const char *default_policy = "default"; // of --recover without a file

// Says now, not at the checkpoint, that MPI processes run without what they are saved with.
// `library` is the file that is missing; "": it is not known which one the job needs.
void warn_of_no_stand_in(const std::string &program, const std::string &library)
{
    if (!library.empty())
        cryo::cli::say("cr_run",
                       fmt::format("{} is missing: {} runs, but its MPI processes cannot be saved; "
                                   "install the part of Cryo for this MPI library (the package "
                                   "cryo-mpi, or a build where that library's mpi.h is)",
                                   library, program));
    else
        cryo::cli::say("cr_run",
                       fmt::format("Cryo cannot find out which MPI library {} uses: it runs, but "
                                   "the job cannot be saved; if it starts the launcher of Open MPI "
                                   "or MPICH, put cr_run there: `cr_run mpirun ...`",
                                   program));
}

// Starts automatic checkpoints of a program or of a launcher's job. The exit code on failure.
std::optional<int> keep(cryo::keeper::Settings &settings, bool omit, pid_t pid)
{
    if (omit) {
        cryo::print(stderr, "cr_run: --interval and --omit exclude each other\n");
        return cryo::cli::usage_exit;
    }
    cryo::Result<void> good = cryo::keeper::complete(settings, fmt::format("context.{}.d", pid));
    for (const std::string &notice : settings.notices)
        cryo::cli::say("cr_run", notice);
    if (!good)
        return cryo::cli::fail("cr_run", good.error());
    const cryo::Result<pid_t> keeper = cryo::keeper::launch(settings, pid);
    if (!keeper)
        return cryo::cli::fail("cr_run", keeper.error());
    return {};
}

// Stays as the supervisor of the program. Nothing in the child that is to become it; else the exit
// code. `report` and `series`: of a job, for its first daemon.
std::optional<int> supervise(const std::vector<std::string> &words,
                             cryo::keeper::Settings &settings, const std::string &file,
                             const std::vector<std::string> &spares, cryo::Fd &report,
                             std::string &series)
{
    cryo::Result<cryo::recover::Policy> policy = cryo::recover::Policy();
    if (file != default_policy)
        policy = cryo::recover::read_policy(file);
    if (!policy)
        return cryo::cli::fail("cr_run", policy.error());
    if (!spares.empty())
        policy->spares = spares;
    if (!policy->spares.empty() && !settings.mpi)
        return cryo::cli::fail("cr_run", Error(EINVAL, "spares are hosts for MPI jobs, and this is "
                                                       "none"));
    if (policy->maps && settings.mpi)
        return cryo::cli::fail("cr_run",
                               Error(EINVAL, "lazy = true: memory of ranks of MPI jobs is "
                                             "read whole; leave it out of the policy"));
    cryo::Result<void> good =
        cryo::keeper::complete(settings, fmt::format("context.{}.d", getpid()));
    for (const std::string &notice : settings.notices)
        cryo::cli::say("cr_run", notice);
    if (!good)
        return cryo::cli::fail("cr_run", good.error());
    cryo::recover::Supervisor supervisor({words, settings, std::move(*policy)});
    std::optional<int> code = supervisor.run();
    report = supervisor.take_report();
    series = supervisor.series();
    return code;
}

// Why the program cannot be brought back by itself; "": it can.
std::string why_not_recovered(bool omit, bool is_job, bool is_rank, const std::string &program)
{
    if (omit)
        return "--recover and --omit exclude each other";
    if (is_job && !cryo::coord::is_launcher(program))
        return "--recover: an MPI job comes back by itself only if cr_run starts its launcher: "
               "`cr_run --recover mpirun ...`";
    if (is_job && cryo::coord::is_srun(program))
        return "--recover: jobs under srun do not come back by themselves, as the end of a step "
               "ends all of it; start the job as `cr_run --recover mpirun ...`, or save it with "
               "--interval, and bring it back with ompi-restart";
    if (is_rank)
        return "--recover: ranks of MPI jobs do not come back by themselves; start the job as "
               "`cr_run --recover mpirun ...`";
    return {};
}

// Open MPI's parameters may set what cr_run's options set; --interval and --into win.
void follow_parameters(const std::vector<std::string> &words, cryo::keeper::Settings &settings)
{
    cryo::coord::export_parameters(words);
    const cryo::coord::Parameters wanted = cryo::coord::parameters_of(cryo::coord::own_variables());
    if (settings.interval.empty())
        settings.interval = wanted.interval;
    if (settings.directory.empty())
        settings.directory = wanted.directory;
    if (!wanted.backend.empty())
        settings.common.backend = wanted.backend;
}

// For a rank whose launcher is not under cr_run. A job that cannot be saved is not an error,
// so it is only reported. Returns the launcher if this process has made the job, else 0.
pid_t join_job()
{
    const cryo::coord::Variables environment = cryo::coord::own_variables();
    const cryo::Result<cryo::coord::Within> job = cryo::coord::job_from_within();
    if (!job) {
        if (cryo::coord::is_first_of_node(environment))
            cryo::cli::say("cr_run", job.error().text() + ": the job cannot be saved; start it as "
                                                          "`cr_run mpirun ...`");
        return 0;
    }
    for (const auto &[name, value] : job->variables)
        setenv(name.c_str(), value.c_str(), 1);
    return job->is_new ? job->launcher : 0;
}

} // namespace

static int run(int argc, char **argv)
{
    // Ignored by the caller, it would keep the ends of our own children from us.
    const sighandler_t children_of_caller = std::signal(SIGCHLD, SIG_DFL);
    CLI::App app("Starts a program under Cryo, so that cr_checkpoint can save it.", "cr_run");
    app.prefix_command();
    int signal = 0;
    bool omit = false;
    bool no_mpi = false;
    bool mpi = false;
    app.add_flag("--omit,!--run", omit, "Leave the program out of every checkpoint");
    auto *is_mpi = app.add_flag("--mpi", mpi,
                                "The program starts an MPI job (known by itself: mpirun, mpiexec, "
                                "orterun, prterun, srun)");
    app.add_flag("--no-mpi", no_mpi,
                 "The program starts no MPI job: no daemon for ompi-checkpoint is started")
        ->excludes(is_mpi);
    app.add_option("--signal", signal,
                   "The signal that Cryo uses inside the program (default: the last real-time one)")
        ->check(CLI::Range(SIGRTMIN, SIGRTMAX));
    std::string cpu = "native";
    app.add_option("--cpu", cpu,
                   "The CPU for which libraries choose their code: this one (native), or any "
                   "(baseline), so that the program can be restarted on an older one")
        ->check(CLI::IsMember({"native", "baseline"}));
    bool quiet = false;
    app.add_flag("-q,--quiet", quiet, "Do not say what keeps the program from being saved");
    cryo::keeper::Settings keeping;
    std::string recover; // "": no
    auto *recovers =
        app.add_flag(fmt::format("--recover{{{}}}", default_policy), recover,
                     "Stay in front, and bring the program back from its newest image when a "
                     "fault ends it (=FILE: as this file says)")
            ->group("Recovery");
    std::vector<std::string> spares;
    app.add_option("--spares", spares,
                   "With --recover, of an MPI job: hosts that take the places of lost nodes, as "
                   "n9,n10")
        ->delimiter(',')
        ->type_name("HOSTS")
        ->allow_extra_args(false)
        ->check(CLI::Validator(
            [](const std::string &name) {
                return cryo::coord::is_host_name(name) ? "" : name + ": is no name of a host";
            },
            ""))
        ->needs(recovers)
        ->group("Recovery");
    cryo::keeper::add_options(app, keeping);
    // A recovery needs images: those of --interval=auto, unless the user chooses another one.
    recovers->each([interval = app.get_option("--interval")](const std::string &) {
        if (interval->count() == 0)
            interval->add_result("auto");
    });
    cryo::cli::use_help(app, "PROGRAM [ARGS]...");
    cryo::cli::add_examples(
        app, {{"cr_run ./app", "from now on cr_checkpoint can save it"},
              {"cr_run --interval 5m ./app", "it is saved every five minutes, by itself"},
              {"cr_run --recover ./app", "it comes back by itself when it is killed or crashes"},
              {"cr_run mpirun -n 4 ./app", "an MPI job, which ompi-checkpoint saves"}});
    if (std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;
    std::vector<std::string> words = app.remaining();
    if (!words.empty() && words.front() == "--") {
        words.erase(words.begin());
    } else if (!words.empty() && words.front().starts_with("-")) {
        cryo::cli::say("cr_run", cryo::cli::no_such_option(app, words.front()) +
                                     " (or -- before a program of that name)");
        return cryo::cli::usage_exit;
    }
    if (words.empty()) {
        cryo::print(stderr, "cr_run: no program is named; try cr_run --help\n");
        return cryo::cli::usage_exit;
    }

    if (recover == default_policy && words.front().ends_with(".toml") &&
        access(words.front().c_str(), X_OK) != 0) {
        cryo::cli::say("cr_run", fmt::format("{0}: is no program; a file of --recover is named as "
                                             "--recover={0}",
                                             words.front()));
        return cryo::cli::usage_exit;
    }

    const bool is_job = mpi || (!no_mpi && !omit && cryo::coord::is_launcher(words.front()));
    const char *stand_in = omit ? nullptr : stand_in_for(words, is_job);
    const bool is_rank = !is_job && !no_mpi && stand_in != nullptr &&
                         cryo::coord::is_rank(cryo::coord::own_variables());
    if (!recover.empty()) {
        if (const std::string why = why_not_recovered(omit, is_job, is_rank, words.front());
            !why.empty()) {
            cryo::cli::say("cr_run", why);
            return cryo::cli::usage_exit;
        }
    }
    pid_t whole = getpid(); // what automatic checkpoints save; 0: others make them
    if (is_job)
        follow_parameters(words, keeping);
    if (is_rank)
        whole = cryo::sys::own_variable(cryo::coord::job_variable) == nullptr ? join_job() : 0;
    cryo::Fd report;
    std::string series;
    if (!recover.empty()) {
        keeping.mpi = is_job;
        if (const std::optional<int> code =
                supervise(words, keeping, recover, spares, report, series))
            return *code;
    } else if (keeping.wanted() && whole != 0) {
        keeping.mpi = is_job || is_rank;
        if (const std::optional<int> code = keep(keeping, omit, whole))
            return *code;
    }
    const std::string library = cryo::cli::library(omit ? "libcr_omit.so" : "libcr_run.so");
    if (access(library.c_str(), R_OK) != 0)
        return cryo::cli::fail(
            "cr_run",
            Error::from_errno(library, errno).within("the installation of Cryo is not complete"));
    std::string preload = library;
    // In front of MPI's functions, as they are in front of the stock library: profiling tools.
    if (const char *present = getenv("LD_PRELOAD"); present != nullptr && *present != 0)
        preload += ":" + std::string(present);
    const std::string of_mpi = stand_in != nullptr ? cryo::cli::library(stand_in) : "";
    if (!of_mpi.empty() && access(of_mpi.c_str(), R_OK) == 0)
        preload += ":" + of_mpi;
    else if (!quiet && (is_rank ? cryo::coord::is_first_of_node(cryo::coord::own_variables())
                                : !omit && (is_job || stand_in != nullptr)))
        warn_of_no_stand_in(words.front(), of_mpi);
    allow_asan_behind_us(is_job ? words : std::vector<std::string>{words.front()}, preload);
    if (!ends_by_preloading(words.front()))
        setenv("LD_PRELOAD", preload.c_str(), 1);
    unsetenv("CRYO_PLAN_FD"); // only cr_restart may set it
    if (signal != 0)
        setenv("CRYO_SIGNAL", std::to_string(signal).c_str(), 1);
    if (cpu == "baseline")
        choose_baseline_cpu();
    if (is_job) {
        const cryo::coord::Supervision by = {report ? report.get() : -1, series};
        if (cryo::Result<void> made = cryo::coord::make_job(words, by); !made)
            return cryo::cli::fail("cr_run", made.error());
    }
    // Said now, not at the checkpoint; and once by the ranks of a node.
    const bool tells = !quiet && cryo::coord::is_first_of_node(cryo::coord::own_variables());
    const std::string filter = cryo::capture::note_own_filters();
    if (!omit && !is_job && tells)
        tell_obstacles(words.front(), filter);
    if (omit || is_job || is_rank)
        cryo::forget_inherited();
    else
        cryo::note_inherited(tells);

    std::vector<char *> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string &word : words)
        arguments.push_back(word.data());
    arguments.push_back(nullptr);
    if (children_of_caller == SIG_IGN) // the program inherits what its user has chosen
        std::signal(SIGCHLD, SIG_IGN);
    execvp(arguments[0], arguments.data());
    const int error = errno;
    cryo::cli::say("cr_run", words.front() + ": " + strerror(error));
    return error == ENOENT ? 127 : 126; // as a shell says it
}

int main(int argc, char **argv)
{
    return cryo::cli::whole("cr_run", [&] { return run(argc, argv); });
}
