// SPDX-License-Identifier: Apache-2.0
// Programs and jobs that run.
#include "views.hpp"

#include "base/print.hpp"
#include "cli/text.hpp"
#include "survey/words.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>

namespace cryo::status {

namespace {

using cli::printable;
using survey::age_text;
using survey::number_text;
using survey::Running;
using Json = nlohmann::ordered_json;

Json json_of(const Running &one)
{
    const recover::Published &said = one.said;
    const auto or_null = [](auto value, bool known) { return known ? Json(value) : Json(); };
    return {{"state", one.state},
            {"kind", one.job ? "job" : "program"},
            {"supervisor", or_null(said.supervisor, said.supervisor != 0)},
            {"pid", or_null(said.program, said.program != 0)},
            {"own_pid", or_null(said.own_pid, said.own_pid != 0)},
            {"user", one.owner},
            {"command", said.command},
            {"processes", or_null(one.processes, one.processes != 0)},
            {"savable", or_null(one.obstacle == "", one.obstacle.has_value())},
            {"obstacle", or_null(one.obstacle.value_or(""), !one.obstacle.value_or("").empty())},
            {"directory", or_null(said.directory, !said.directory.empty())},
            {"checkpoint", or_null(said.checkpoint, !said.checkpoint.empty())},
            {"checkpoint_at_ns", or_null(said.checkpoint_ns, !said.checkpoint.empty())},
            {"stopped_ns", or_null(one.stopped_ns, one.stopped_ns != 0)},
            {"bytes", or_null(one.bytes, one.bytes != 0)},
            {"level", or_null(one.level, !one.level.empty())},
            {"faults", said.faults},
            {"recoveries", said.recoveries},
            {"last_fault", or_null(said.last_fault, !said.last_fault.empty())},
            {"lost_nodes", said.lost_nodes},
            {"spares", said.spares},
            {"standby", or_null(said.standby, !said.standby.empty())},
            {"standby_bytes", or_null(said.standby_bytes, !said.standby.empty())}};
}

std::string savable_text(const Running &one)
{
    return !one.obstacle ? "-" : one.obstacle->empty() ? "yes" : "no";
}

void show_list(const std::vector<Running> &all)
{
    using enum cli::Align;
    const cli::Output out;
    if (all.empty()) {
        out.print("no program runs under cr_run, and none is saved or brought back by itself\n");
        return;
    }
    cli::Columns table({right, right, left, left, left, right, right, left});
    table.add({"SUPERVISOR", "PID", "STATE", "SAVABLE", "LAST CHECKPOINT", "FAULTS", "RECOVERIES",
               "PROGRAM"});
    for (const Running &one : all) {
        const recover::Published &said = one.said;
        table.add({number_text(said.supervisor), number_text(said.program), one.state,
                   savable_text(one), said.checkpoint.empty() ? "-" : age_text(said.checkpoint_ns),
                   std::to_string(said.faults), std::to_string(said.recoveries),
                   printable(said.command)});
    }
    out.print("{}", table.text(0));
}

void show_one(const Running &one)
{
    const cli::Output out;
    const recover::Published &said = one.said;
    const auto line = [&](const char *name, const std::string &text) {
        if (!text.empty())
            out.print("{:<16}{}\n", name, printable(text));
    };
    line("program", said.command);
    line("state", one.state);
    line(one.job ? "launcher" : "process",
         number_text(said.program) + (said.own_pid != said.program && said.program != 0
                                          ? fmt::format(" ({} to itself)", said.own_pid)
                                          : ""));
    if (one.processes != 0)
        line(one.job ? "ranks" : "processes", std::to_string(one.processes));
    line("supervisor", number_text(said.supervisor));
    line("can be saved",
         one.obstacle && !one.obstacle->empty() ? "no: " + *one.obstacle : savable_text(one));
    line("images", said.directory);
    line("level", one.level);
    line("last checkpoint", said.checkpoint.empty() ? "none yet"
                                                    : fmt::format("{}, {}", said.checkpoint,
                                                                  age_text(said.checkpoint_ns)));
    if (!said.standby.empty())
        line("in memory", fmt::format("{}, {}", said.standby, cli::size_text(said.standby_bytes)));
    if (one.bytes != 0)
        line("size", cli::size_text(one.bytes));
    if (one.stopped_ns != 0)
        line("stood still", cli::duration_text(one.stopped_ns));
    line("faults", std::to_string(said.faults));
    line("recoveries", std::to_string(said.recoveries));
    line("last fault", said.last_fault);
    line("lost nodes", fmt::format("{}", fmt::join(said.lost_nodes, ", ")));
    line("spares left", said.lost_nodes.empty() && said.spares.empty() ? ""
                        : said.spares.empty()                          ? "none"
                                              : fmt::format("{}", fmt::join(said.spares, ", ")));
}

} // namespace

void print_line(const Json &object)
{
    cryo::print("{}\n", object.dump(-1, ' ', false, Json::error_handler_t::replace));
}

int show_programs(const std::vector<Running> &all, pid_t pid, bool json)
{
    if (json) {
        for (const Running &one : all)
            print_line(json_of(one));
    } else if (pid != 0) {
        for (const Running &one : all)
            show_one(one);
    } else {
        show_list(all);
    }
    const bool amiss = std::ranges::any_of(all, [pid](const Running &one) {
        return one.is_amiss() || (pid != 0 && one.state == "unready");
    });
    return amiss ? not_good : 0;
}

} // namespace cryo::status
