// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <cmath>
#include <fmt/format.h>
#include <map>

#include "cli/command.hpp"
#include "cli/number.hpp"

namespace cryo::delta {

namespace {

using image::DeltaMode;
using image::Packing;

const std::map<std::string, DeltaMode> kModes{{"adaptive", DeltaMode::adaptive},
                                              {"incremental", DeltaMode::incremental},
                                              {"differential", DeltaMode::differential}};
const std::map<std::string, Packing> kCodecs{
    {"auto", Packing::smallest}, {"fast", Packing::automatic},      {"raw", Packing::raw},
    {"lz4", Packing::lz4},       {"shuffle", Packing::shuffle_lz4}, {"zstd", Packing::zstd}};

// An option whose value is a word of a fixed list.
template <class T>
void add_choice(CLI::App *to, const std::string &name, std::optional<T> &value,
                const std::map<std::string, T> &words, const std::string &what)
{
    to->add_option_function<std::string>(
          name, [&value, &words](const std::string &word) { value = words.at(word); }, what)
        ->check(CLI::IsMember(words));
}

class Parser
{
  public:
    explicit Parser(Options &options) : o_(options) {}

    std::optional<int> parse(int argc, char **argv)
    {
        app_.require_subcommand(1);
        add();
        restore();
        list();
        merge();
        prune();
        verify();
        sign();
        make();
        apply();
        app_.footer("\"cr_delta COMMAND --help\" lists the options of a command.\nExit status: 0 "
                    "good, 255 wrong usage, else the low 8 bits of errno; 74 damaged.");
        cli::add_examples(app_,
                          {{"cr_delta add --service series dump -o dump.1", "keeps a version"},
                           {"cr_delta list --service series", "shows the versions"},
                           {"cr_delta restore --service series 7 -o dump", "writes one"}});
        if (std::optional<int> done = cli::parse(app_, argc, argv))
            return done;
        if (o_.block_size && !is_block_size(*o_.block_size))
            return misused("blocks have 4K, 8K, 16K, … or 1M bytes");
        if (o_.threshold && !(*o_.threshold >= 1 && *o_.threshold <= 1e6))
            return misused("the threshold is a number from 1 to 1000000");
        if (o_.service.empty() && o_.verb == Verb::verify && o_.arguments.empty())
            return misused("verify takes images, a service directory, or both");
        if (o_.service.empty() && o_.verb == Verb::list && o_.arguments.empty())
            return misused("list takes images or a service directory");
        return std::nullopt;
    }

  private:
    static int misused(const std::string &why)
    {
        cli::say(kCommand, fmt::format("{}; try {} --help", why, kCommand));
        return cli::usage_exit;
    }

    CLI::App *command(Verb verb, const std::string &name, const std::string &what)
    {
        CLI::App *sub = app_.add_subcommand(name, what);
        sub->callback([this, verb] { o_.verb = verb; });
        sub->add_flag("--json", o_.json, "Print the result as JSON");
        sub->add_flag("-q,--quiet", o_.quiet, "Print only errors");
        return sub;
    }
    CLI::Option *service(CLI::App *sub)
    {
        return sub->add_option("--service", o_.service, "The service directory");
    }
    CLI::Option *output(CLI::App *sub, const std::string &what)
    {
        sub->add_flag("-f,--force", o_.force, "Replace an existing file, atomically");
        return sub->add_option("-o,--output", o_.output, what);
    }
    CLI::Option *arguments(CLI::App *sub, const std::string &name, const std::string &what)
    {
        return sub->add_option(name, o_.arguments, what);
    }
    void bases(CLI::App *sub, const std::string &what)
    {
        sub->add_option("--base", o_.bases, what)->allow_extra_args(false);
    }
    void packing(CLI::App *sub)
    {
        add_choice(sub, "--codec", o_.packing, kCodecs,
                   "How packages are packed: auto, fast, raw, lz4, shuffle or zstd");
        sub->add_option("--package-blocks", o_.package_blocks, "Q, pages in a package: 4 to 64")
            ->check(CLI::Range(image::kMinPackageBlocks, image::kMaxPackageBlocks));
    }
    void block_size(CLI::App *sub)
    {
        sub->add_option("--block-size", o_.block_size, "Bytes of a block: a power of two, 4K to 1M")
            ->transform(CLI::AsSizeValue(false));
    }

    void add()
    {
        auto *sub = command(Verb::add, "add", "Saves FILE as the next version of a series");
        service(sub)->required();
        arguments(sub, "FILE", "The file to be saved")->required()->expected(1);
        output(sub, "The image of this version")->required();
        add_choice(sub, "--mode", o_.mode, kModes,
                   "How bases are chosen: adaptive, incremental or differential");
        sub->add_option("--threshold", o_.threshold,
                        "B: rebase when a delta to the base is so much larger than one to the "
                        "previous version (adaptive)");
        sub->add_option("--most-images", o_.most_images,
                        "Images that a version may need; beyond, it is saved complete")
            ->check(CLI::Range(1u, image::kMaxDeltaDepth));
        block_size(sub);
        packing(sub);
        sub->add_flag("--complete", o_.complete, "Save all of it; a new base");
    }
    void restore()
    {
        auto *sub = command(Verb::restore, "restore", "Gives back the file that was saved");
        service(sub);
        bases(sub, "An image that it may be based on; may be given several times");
        arguments(sub, "VERSION", "Its image, or its number")->required()->expected(1);
        output(sub, "The file; - is standard output")->required();
    }
    void list()
    {
        auto *sub = command(Verb::list, "list", "Shows versions, and what each needs");
        service(sub);
        arguments(sub, "IMAGE", "Images to be shown by themselves");
    }
    void merge()
    {
        auto *sub =
            command(Verb::merge, "merge", "Saves a version anew, complete or based on another one");
        service(sub)->required();
        arguments(sub, "VERSION", "Its image, or its number")->required()->expected(1);
        output(sub, "The new image; else the version's own is replaced");
        sub->add_option("--onto", o_.onto, "Number of the version to be based on")
            ->transform(cli::above_zero());
    }
    void prune()
    {
        auto *sub = command(Verb::prune, "prune", "Removes versions that are no longer needed");
        service(sub)->required();
        sub->add_option("--keep", o_.keep, "How many of the newest versions stay")
            ->required()
            ->transform(cli::above_zero());
        sub->add_option("--every", o_.every, "Versions stay whose number is a multiple of this")
            ->transform(cli::above_zero());
        sub->add_flag("-n,--dry-run", o_.dry_run, "Only print what would be removed");
    }
    void verify()
    {
        auto *sub = command(Verb::verify, "verify", "Checks every byte of images and their bases");
        service(sub);
        bases(sub, "An image, or the plain file, that they may be based on");
        arguments(sub, "VERSION", "Images or numbers; with --service and none: all versions");
    }
    void sign()
    {
        auto *sub = command(Verb::sign, "sign", "Writes the signature of FILE");
        arguments(sub, "FILE", "The file")->required()->expected(1);
        output(sub, "The signature")->required();
        block_size(sub);
    }
    void make()
    {
        auto *sub = command(Verb::make, "make", "Writes the differences between FILE and its base");
        sub->add_option("--signature", o_.signature, "Signature of the base")->required();
        arguments(sub, "FILE", "The file")->required()->expected(1);
        output(sub, "The delta")->required();
        packing(sub);
    }
    void apply()
    {
        auto *sub = command(Verb::apply, "apply", "Puts a base and a delta together");
        bases(sub, "The base, a plain file");
        sub->get_option("--base")->required();
        arguments(sub, "DELTA", "The delta")->required()->expected(1);
        output(sub, "The file; - is standard output")->required();
    }

    Options &o_;
    CLI::App app_{"Keeps versions of files, such as the images of any checkpointer, as small "
                  "deltas.",
                  kCommand};
};

} // namespace

std::optional<int> parse(int argc, char **argv, Options &options)
{
    return Parser(options).parse(argc, argv);
}

} // namespace cryo::delta
