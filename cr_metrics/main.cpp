// SPDX-License-Identifier: Apache-2.0
// cr_metrics: serves what is known of this machine's checkpoints to Prometheus, by HTTP.
#include "base/print.hpp"
#include "cli/command.hpp"
#include "exporter.hpp"

#include <csignal>
#include <cstdio>

namespace {

using cryo::Error;
using cryo::Result;
using cryo::metrics::Exporter;

constexpr const char *command = "cr_metrics";

struct Options {
    std::string listen = "127.0.0.1:9464";
    std::vector<std::string> directories = {"/var/lib/cryo-metrics"};
};

void add_options(CLI::App &app, Options &options)
{
    app.add_option(
           "-l,--listen", options.listen,
           "Address and port to listen at (default: " + options.listen +
               "): on loopback for users of this machine only, by an address of the network "
               "for all who reach it; port 0 is any free one")
        ->type_name("ADDRESS");
    app.add_option("-d,--directory", options.directories,
                   "Where programs' files are, or directories with such files, one for each user "
                   "(default: " +
                       options.directories.front() + "); may be given several times")
        ->type_name("DIRECTORY")
        ->allow_extra_args(false);
    cryo::cli::add_examples(
        app,
        {{"cr_metrics --listen 127.0.0.1:9464", "serves http://127.0.0.1:9464/metrics"},
         {"cr_metrics --listen 127.0.0.1:0 --directory ~/metrics", "serves your own programs"}});
}

int run(int argc, char **argv)
{
    CLI::App app("Serves the metrics of this machine's checkpoints to Prometheus.", command);
    Options options;
    add_options(app, options);
    if (const std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;
    signal(SIGPIPE, SIG_IGN); // a client, or who reads the messages, may go away at any time
    Result<std::unique_ptr<Exporter>> exporter =
        Exporter::open(options.listen, options.directories,
                       [](const Error &error) { cryo::cli::say(command, error.text()); });
    if (!exporter)
        return cryo::cli::fail(command, exporter.error());
    const cryo::metrics::Server &server = (*exporter)->server();
    if (!server.is_local())
        cryo::cli::say(command, server.address() +
                                    ": is reached by other machines, without a password or "
                                    "encryption; put a proxy in front, or listen on 127.0.0.1");
    cryo::print("{}: http://{}/metrics\n", command, server.address());
    fflush(stdout);
    const Result<void> done = (*exporter)->work();
    return done ? 0 : cryo::cli::fail(command, done.error());
}

} // namespace

int main(int argc, char **argv)
{
    return cryo::cli::whole(command, [&] { return run(argc, argv); });
}
