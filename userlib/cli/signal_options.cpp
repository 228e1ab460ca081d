// SPDX-License-Identifier: Apache-2.0
#include "cli/signal_options.hpp"

#include <charconv>
#include <csignal>
#include <cstring>
#include <fmt/format.h>

namespace cryo::cli {

namespace {

// "15", "TERM" or "SIGTERM".
int signal_of(const std::string &text)
{
    int number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) {
        if (number >= 0 && number <= SIGRTMAX)
            return number;
    } else {
        const std::string name = text.rfind("SIG", 0) == 0 ? text.substr(3) : text;
        for (int signal = 1; signal < SIGRTMIN; signal++) {
            const char *known = sigabbrev_np(signal);
            if (known != nullptr && name == known)
                return signal;
        }
    }
    throw CLI::ValidationError("--signal", fmt::format("there is no signal {}", text));
}

} // namespace

void add_signal_options(CLI::App &app, int &signal, const std::string &when)
{
    const std::string group = "Signal to all processes " + when + " (the last one counts)";
    const struct {
        const char *name;
        int signal;
        const char *help;
    } table[] = {
        {"--run", 0, "None: they go on (default)"},
        {"--stop", SIGSTOP, "SIGSTOP"},
        {"--term", SIGTERM, "SIGTERM"},
        {"--abort", SIGABRT, "SIGABRT"},
        {"--kill", SIGKILL, "SIGKILL"},
        {"--cont", SIGCONT, "SIGCONT"},
    };
    for (const auto &[name, number, help] : table) {
        app.add_flag_callback(
               name, [&signal, chosen = number] { signal = chosen; }, help)
            ->trigger_on_parse()
            ->group(group);
    }
    app.add_option_function<std::string>(
           "-S,--signal", [&signal](const std::string &text) { signal = signal_of(text); },
           "This one, by number or name")
        ->type_name("NUMBER")
        ->trigger_on_parse()
        ->group(group);
}

} // namespace cryo::cli
