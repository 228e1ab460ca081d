// SPDX-License-Identifier: Apache-2.0
// cr_top: programs and jobs that are saved, and how they stand, again and again.
#include "base/clock.hpp"
#include "base/print.hpp"
#include "cli/command.hpp"
#include "screen.hpp"
#include "terminal.hpp"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <poll.h>
#include <unistd.h>

namespace {

using cryo::Result;
using cryo::survey::Survey;
using cryo::top::Event;
using cryo::top::Screen;
using cryo::top::Terminal;

constexpr const char *command = "cr_top";
constexpr double shortest = 0.1; // seconds: a look takes some milliseconds
constexpr double longest = 86400;

struct Options {
    double delay = 2;
    std::string order = cryo::top::order_names[0];
    bool once = false;
    bool batch = false;
};

void add_options(CLI::App &app, Options &options)
{
    app.add_option("-d,--delay", options.delay, "Seconds between two looks (default: 2)")
        ->type_name("SECONDS")
        ->check([](const std::string &word) {
            char *end = nullptr;
            const double seconds = strtod(word.c_str(), &end);
            const bool good =
                !word.empty() && *end == 0 && seconds >= shortest && seconds <= longest;
            return good ? "" : "wants a number of seconds from 0.1 on, not '" + word + "'";
        });
    app.add_option(
           "-s,--sort", options.order,
           "What comes first: the oldest image, what is amiss, the largest image, the longest "
           "stop, the most faults, or the lowest process id")
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(cryo::top::order_names),
                                                       std::end(cryo::top::order_names))));
    app.add_flag("--once", options.once, "Look once, and end");
    app.add_flag("--batch", options.batch, "Print text, also where there is no terminal");
    app.footer(
        "Keys: q ends, s sorts by something else, p pauses and goes on, space looks at once.");
    cryo::cli::add_examples(app, {{"cr_top -d 5", "shows programs until q is pressed"},
                                  {"cr_top --once --batch", "prints one screen, for a script"}});
}

Screen screen_for(const Options &options)
{
    const auto *at = std::ranges::find(cryo::top::order_names, options.order);
    return Screen(static_cast<cryo::top::Order>(at - std::begin(cryo::top::order_names)));
}

int milliseconds(const Options &options)
{
    return static_cast<int>(options.delay * 1000);
}

int print_text(const Options &options)
{
    Survey survey;
    const Screen screen = screen_for(options);
    for (;;) {
        for (const std::string &line : screen.lines(survey.look(), false))
            cryo::print("{}\n", line);
        if (options.once)
            return 0;
        cryo::print("\n");
        if (fflush(stdout) != 0)
            return 0; // whole() says why
        poll(nullptr, 0, milliseconds(options));
    }
}

// Looks again when the time has come; keys are answered meanwhile.
int show(const Options &options, Terminal &terminal)
{
    Survey survey;
    Screen screen = screen_for(options);
    bool paused = false;
    std::vector<cryo::survey::Running> all = survey.look();
    uint64_t due = cryo::now_ns();
    const auto delay = static_cast<uint64_t>(options.delay * 1e9);
    for (;;) {
        uint64_t now = cryo::now_ns();
        if (!paused && now >= due) {
            all = survey.look();
            now = cryo::now_ns();
            due = now + delay;
        }
        terminal.show(screen.lines(all, paused));
        const int wait = paused ? -1 : static_cast<int>((due - std::min(due, now)) / 1'000'000 + 1);
        switch (terminal.await(wait)) {
        case Event::ended:
            return terminal.ended_by();
        case Event::key:
            break;
        case Event::timeout:
        case Event::resized:
            continue;
        }
        switch (terminal.key()) {
        case 'q':
            return 0;
        case 's':
            screen.sort_by_next();
            break;
        case 'p':
            paused = !paused;
            break;
        case ' ':
            all = survey.look();
            due = cryo::now_ns() + delay;
            break;
        default:
            break;
        }
    }
}

int show_on_terminal(const Options &options)
{
    int signal = 0;
    {
        Result<Terminal> terminal = Terminal::take();
        if (!terminal)
            return cryo::cli::fail(command, terminal.error());
        signal = show(options, *terminal);
    }
    if (signal != 0 && signal != SIGINT) { // by which its user has ended it
        ::signal(signal, SIG_DFL);
        raise(signal);
        sigset_t all;
        sigfillset(&all);
        sigprocmask(SIG_UNBLOCK, &all, nullptr);
    }
    return 0;
}

int run(int argc, char **argv)
{
    CLI::App app("Shows programs and jobs that can be saved, and their last checkpoints, live.",
                 command);
    Options options;
    add_options(app, options);
    if (const std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;
    return options.batch || options.once ? print_text(options) : show_on_terminal(options);
}

} // namespace

int main(int argc, char **argv)
{
    return cryo::cli::whole(command, [&] { return run(argc, argv); });
}
