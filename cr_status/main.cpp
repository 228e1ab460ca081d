// SPDX-License-Identifier: Apache-2.0
// cr_status: which programs are saved and brought back by themselves, and how they stand.
#include "base/clock.hpp"
#include "base/print.hpp"
#include "cli/command.hpp"
#include "cli/number.hpp"
#include "cli/text.hpp"
#include "recover/published.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <unistd.h>

namespace {

using cryo::cli::printable;
using cryo::recover::name_of;
using cryo::recover::Seen;
using Json = nlohmann::ordered_json;

constexpr int not_protected = 1;

std::string age_text(int64_t ns)
{
    const int64_t age = std::max<int64_t>(cryo::clock_ns(CLOCK_REALTIME) - ns, 0);
    return cryo::cli::duration_text(static_cast<uint64_t>(age)) + " ago";
}

// In another pid namespace the numbers of processes are those of others here.
bool counts_here(const Seen &seen)
{
    return seen.standing != cryo::recover::Standing::elsewhere;
}

std::string number_text(pid_t pid)
{
    return pid != 0 ? std::to_string(pid) : "-";
}

Json json_of(const Seen &seen)
{
    const cryo::recover::Published &said = seen.said;
    const auto or_null = [](auto value, bool known) { return known ? Json(value) : Json(); };
    const bool here = counts_here(seen);
    return {{"state", name_of(seen.standing)},
            {"supervisor", or_null(said.supervisor, here && said.supervisor != 0)},
            {"pid", or_null(said.program, here && said.program != 0)},
            {"own_pid", or_null(said.own_pid, here && said.own_pid != 0)},
            {"user", seen.owner},
            {"command", said.command},
            {"directory", or_null(said.directory, !said.directory.empty())},
            {"checkpoint", or_null(said.checkpoint, !said.checkpoint.empty())},
            {"checkpoint_at_ns", or_null(said.checkpoint_ns, !said.checkpoint.empty())},
            {"faults", said.faults},
            {"recoveries", said.recoveries},
            {"last_fault", or_null(said.last_fault, !said.last_fault.empty())}};
}

void show_list(const std::vector<Seen> &all)
{
    using enum cryo::cli::Align;
    const cryo::cli::Output out;
    if (all.empty()) {
        out.print("no program is saved or brought back by itself\n");
        return;
    }
    cryo::cli::Columns table({right, right, left, left, right, right, left});
    table.add({"SUPERVISOR", "PID", "STATE", "LAST CHECKPOINT", "FAULTS", "RECOVERIES", "PROGRAM"});
    for (const Seen &seen : all) {
        const cryo::recover::Published &said = seen.said;
        const bool here = counts_here(seen);
        table.add({number_text(here ? said.supervisor : 0), number_text(here ? said.program : 0),
                   name_of(seen.standing),
                   said.checkpoint.empty() ? "-" : age_text(said.checkpoint_ns),
                   std::to_string(said.faults), std::to_string(said.recoveries),
                   printable(said.command)});
    }
    out.print("{}", table.text(0));
}

void show_one(const Seen &seen)
{
    const cryo::cli::Output out;
    const cryo::recover::Published &said = seen.said;
    const auto line = [&](const char *name, const std::string &text) {
        if (!text.empty())
            out.print("{:<16}{}\n", name, printable(text));
    };
    line("program", said.command);
    line("state", name_of(seen.standing));
    line("process", number_text(said.program) + (said.own_pid != said.program && said.program != 0
                                                     ? fmt::format(" ({} to itself)", said.own_pid)
                                                     : ""));
    line("supervisor", number_text(said.supervisor));
    line("images", said.directory);
    line("last checkpoint", said.checkpoint.empty() ? "none yet"
                                                    : fmt::format("{}, {}", said.checkpoint,
                                                                  age_text(said.checkpoint_ns)));
    line("faults", std::to_string(said.faults));
    line("recoveries", std::to_string(said.recoveries));
    line("last fault", said.last_fault);
}

int show(const std::vector<Seen> &all, pid_t pid, bool json)
{
    if (json) {
        for (const Seen &seen : all)
            cryo::print("{}\n", json_of(seen).dump(-1, ' ', false, Json::error_handler_t::replace));
    } else if (pid != 0) {
        for (const Seen &seen : all)
            show_one(seen);
    } else {
        show_list(all);
    }
    const bool good = std::ranges::all_of(all, [](const Seen &seen) {
        return cryo::recover::is_protected(seen.standing) ||
               seen.standing == cryo::recover::Standing::kept;
    });
    return good ? 0 : not_protected;
}

int run(int argc, char **argv)
{
    CLI::App app("Shows the programs that are saved or brought back by themselves.", "cr_status");
    pid_t pid = 0;
    bool json = false;
    app.add_option("PID", pid, "Only this one: the process id of the program, or of its supervisor")
        ->transform(cryo::cli::above_zero());
    app.add_flag("--json", json, "Print a line of JSON for each program");
    cryo::cli::add_examples(app, {{"cr_status 412", "what is known of one"},
                                  {"cr_status --json", "of all of them, for a script"}});
    if (const std::optional<int> done = cryo::cli::parse(app, argc, argv))
        return *done;
    std::vector<Seen> all = cryo::recover::look_around();
    if (pid != 0) {
        std::erase_if(all, [pid](const Seen &seen) {
            return !counts_here(seen) || (seen.said.supervisor != pid && seen.said.program != pid);
        });
        if (all.empty()) {
            cryo::cli::say("cr_status",
                           fmt::format("process {}: is neither brought back nor saved by itself; "
                                       "`cr_run --recover` starts programs that are",
                                       pid));
            return not_protected;
        }
    }
    return show(all, pid, json);
}

} // namespace

int main(int argc, char **argv)
{
    return cryo::cli::whole("cr_status", [&] { return run(argc, argv); });
}
