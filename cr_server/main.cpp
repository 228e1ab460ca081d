// SPDX-License-Identifier: Apache-2.0
// cr_server: keeps a user's images for programs on other machines, and gives them for restarts.
#include "ask.hpp"
#include "base/limits.hpp"
#include "base/print.hpp"
#include "cli/command.hpp"
#include "cli/number.hpp"
#include "cli/text.hpp"
#include "server/key.hpp"
#include "server/server.hpp"

#include <csignal>
#include <cstdio>
#include <fmt/format.h>

namespace {

using cryo::Result;
using cryo::server::Depot;
using cryo::server::HostAndPort;
using cryo::server::Server;
using cryo::server::ServerOptions;

constexpr const char *command = "cr_server";
constexpr size_t most_told = 8; // names that are none of the server's

struct Options {
    ServerOptions server;
    std::string listen;
    std::string key;
    bool new_key = false;
    std::string list, remove; // at another server
};

void add_options(CLI::App &app, Options &options)
{
    options.server.directory = "cryo-images";
    options.listen = options.server.listen.text();
    app.add_option("-d,--directory", options.server.directory,
                   "Where the images are; it is made, for you alone (default: " +
                       options.server.directory + ")")
        ->type_name("DIRECTORY");
    app.add_option("-l,--listen", options.listen,
                   "Address and port to listen at (default: " + options.listen +
                       "): on loopback for this machine only; port 0 is any free one")
        ->type_name("ADDRESS");
    app.add_option("-k,--key", options.key,
                   "The file with the key that clients have as well (default: what "
                   "CRYO_SERVER_KEY says, or .config/cryo/server.key in your home)")
        ->type_name("FILE");
    app.add_flag("--new-key", options.new_key, "Make that file, with a new key, and end");
    app.add_option("--list", options.list,
                   "Show which images another server has, cryo://HOST[:PORT]/[SERIES/], and end")
        ->type_name("URL");
    app.add_option("--remove", options.remove, "Remove an image of another server's, and end")
        ->type_name("URL");
    app.add_option("-q,--quota", options.server.quota,
                   "All images together have at most this size, such as 200G (default: no limit "
                   "but the disk)")
        ->type_name("SIZE")
        ->transform(CLI::AsSizeValue(false));
    app.add_option(
           "--clients", options.server.most_clients,
           fmt::format("At most so many at a time (default: {})", options.server.most_clients))
        ->type_name("N")
        ->transform(cryo::cli::above_zero());
    app.add_option("--patience", options.server.patience_s,
                   fmt::format("Give up a client that says nothing for so many seconds (default: "
                               "{})",
                               options.server.patience_s))
        ->type_name("SECONDS")
        ->transform(cryo::cli::above_zero());
    cryo::cli::add_examples(
        app, {{"cr_server --new-key", "makes a key, which goes to your other machines as well"},
              {"cr_server --directory /srv/images --listen 10.0.0.7 --quota 200G",
               "keeps images of programs on other machines"},
              {"cr_server --list cryo://10.0.0.7/", "shows which images that one has"}});
}

void tell_of(const Server &server)
{
    const Depot &depot = server.depot();
    for (size_t i = 0; i < depot.others().size() && i < most_told; i++)
        cryo::cli::say(command, depot.path() + "/" + depot.others()[i] +
                                    ": is no image of the server's, and is left alone");
    cryo::print("{}: cryo://{}/ has {} in {}\n", command, server.address().text(),
                cryo::cli::count_text(depot.images().size(), "image", "images"),
                cryo::printable(depot.path()));
    fflush(stdout);
}

int run(int argc, char **argv)
{
    CLI::App app("Keeps your images for programs on other machines.", command);
    Options options;
    add_options(app, options);
    if (const std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;
    signal(SIGPIPE, SIG_IGN); // who reads the messages may go away
    signal(SIGXFSZ, SIG_IGN); // a limit of the size of files is an error like any other
    const std::string file = options.key.empty() ? cryo::server::usual_key_file() : options.key;
    if (options.new_key) {
        if (const Result<void> made = cryo::server::make_key(file); !made)
            return cryo::cli::fail(command, made.error());
        cryo::print("{}\n", cryo::printable(file));
        return 0;
    }
    if (!options.list.empty() || !options.remove.empty()) {
        const Result<void> done =
            !options.list.empty() ? list(options.list, file) : remove(options.remove, file);
        return done ? 0 : cryo::cli::fail(command, done.error());
    }
    const Result<HostAndPort> listen = HostAndPort::parse(options.listen, "--listen");
    if (!listen)
        return cryo::cli::fail(command, listen.error());
    options.server.listen = *listen;
    Result<std::string> secret = cryo::server::read_key(file);
    if (!secret)
        return cryo::cli::fail(command, secret.error());
    cryo::allow_descriptors();
    Result<std::unique_ptr<Server>> server = Server::open(options.server, std::move(*secret));
    if (!server)
        return cryo::cli::fail(command, server.error());
    // Before anybody is told of it, and may end it.
    if (const Result<void> done = (*server)->end_at_signals(); !done)
        return cryo::cli::fail(command, done.error());
    tell_of(**server);
    (*server)->work();
    return 0;
}

} // namespace

int main(int argc, char **argv)
{
    return cryo::cli::whole(command, [&] { return run(argc, argv); });
}
