// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "base/print.hpp"
#include "cli/command.hpp"
#include "cli/number.hpp"

#include <cstdio>
#include <functional>

namespace cryo::storing {

namespace {

// S3 takes no smaller ones but the last; servers of one's own may.
constexpr uint64_t smallest_part = 4 << 10;
constexpr uint64_t largest_part = uint64_t(5) << 30;
constexpr uint64_t longest_patience = 7 * 86400;
constexpr unsigned most_connections = 64;

class Parser
{
  public:
    explicit Parser(Options &options) : o_(options) {}

    std::optional<int> parse(int argc, char **argv)
    {
        app_.require_subcommand(1);
        CLI::App *push =
            verb(Verb::push, "push", "Puts an image, or the snapshots of a job, there");
        push->add_option("IMAGE", o_.file,
                         "An image (a file or a directory), or the directory of a job's snapshots")
            ->required();
        place(push, "Where; with a slash at its end: below that, by its own name");
        moving(push);
        push->add_option("--part-size", o_.part_size,
                         "Bytes of a part of a larger file, such as 64M (default: 16M)")
            ->transform(CLI::AsSizeValue(false) & CLI::Range(smallest_part, largest_part));
        CLI::App *pull = verb(Verb::pull, "pull", "Brings it back into a directory, which is made");
        place(pull, "What was pushed");
        pull->add_option("DIRECTORY", o_.directory, "The directory")->required();
        moving(pull);
        place(verb(Verb::list, "list", "Shows what is there"), "s3://BUCKET, or a place in it");
        CLI::App *verify =
            verb(Verb::verify, "verify", "Reads all, and compares it with checksums");
        place(verify, "What was pushed");
        moving(verify);
        place(verb(Verb::remove, "remove", "Removes it, complete or not"), "What was pushed");
        for_commands(push, verb(Verb::check, "check", "Whether something could be put there"));
        app_.footer("\"cr_store COMMAND --help\" lists the options of a command. The server and "
                    "the credentials are\nthose of AWS_ENDPOINT_URL, AWS_ACCESS_KEY_ID, ... or "
                    "~/.aws: see cr_store(1).");
        cli::add_examples(app_,
                          {{"cr_store push context.412 s3://bucket/run7", "puts an image there"},
                           {"cr_restart s3://bucket/run7", "brings the process back from there"},
                           {"cr_store list s3://bucket", "shows what is there"}});
        return cli::parse(app_, argc, argv);
    }

  private:
    CLI::App *verb(Verb verb, const std::string &name, const std::string &what)
    {
        CLI::App *sub = app_.add_subcommand(name, what);
        sub->callback([this, verb] { o_.verb = verb; });
        sub->add_option("--patience", o_.patience,
                        "Seconds for which a request is repeated that fails for a cause that may "
                        "pass (default: 60)")
            ->transform(cli::zero_or_more() & CLI::Range(uint64_t(0), longest_patience))
            ->envname("CRYO_STORE_PATIENCE");
        o_.talk.add_options(*sub);
        return sub;
    }
    void place(CLI::App *sub, const std::string &what)
    {
        sub->add_option("PLACE", o_.place, what)->required();
    }
    void moving(CLI::App *sub)
    {
        sub->add_option("--rate", o_.rate, "At most so many MiB a second; 0: no limit (default)")
            ->transform(cli::zero_or_more() & CLI::Range(uint64_t(0), uint64_t(1) << 20));
        sub->add_option("--connections", o_.connections, "To the server at once (default: 4)")
            ->transform(cli::above_zero() & CLI::Range(1U, most_connections));
    }

    // What other commands say that have this one do the work (userlib/cli/stored.hpp).
    void for_commands(CLI::App *push, CLI::App *check)
    {
        push->add_flag("--lines", o_.lines)->group("");
        push->add_option("--byte-rate", o_.byte_rate)->group("");
        check->group("");
        check->add_flag("--connect", o_.connect, "Ask the server, too");
        place(check, "Where");
    }

    Options &o_;
    CLI::App app_{"Keeps images and snapshots in object stores with the interface of Amazon S3.",
                  command};
};

// At most a hundred of them.
std::function<void(uint64_t, uint64_t)> tell_lines()
{
    return [told = uint64_t(0)](uint64_t done, uint64_t total) mutable {
        if (done - told < total / 100 && done < total)
            return;
        told = done;
        print("{}\n", cli::Json({{"done", done}, {"of", total}}).dump());
        fflush(stdout);
    };
}

} // namespace

std::optional<int> parse(int argc, char **argv, Options &options)
{
    return Parser(options).parse(argc, argv);
}

store::MoveOptions move_options(Options &options, const std::string &what)
{
    return {.patience = std::chrono::seconds(options.patience),
            .rate = options.byte_rate != 0 ? options.byte_rate : options.rate << 20,
            .connections = options.connections,
            .part_size = options.part_size,
            .progress = options.lines ? tell_lines() : options.talk.progress(what)};
}

} // namespace cryo::storing
