// SPDX-License-Identifier: Apache-2.0
#include "cli/talk.hpp"
#include "base/clock.hpp"
#include "base/print.hpp"

#include "cli/command.hpp"
#include "cli/error_json.hpp"
#include "cli/text.hpp"

namespace cryo::cli {

Talk::Talk(std::string command) : command_(std::move(command)), begun_(now_ns()), last_(begun_) {}

void Talk::add_options(CLI::App &app)
{
    constexpr const char *group = "Messages";
    app.add_flag("-v,--verbose", verbose_, "Print the phases, with their times")->group(group);
    app.add_flag("-q,--quiet", quiet_, "Print only errors and warnings")->group(group);
    app.add_flag("--json", json_, "Print the result, or the error, as one line of JSON")
        ->group(group);
    const struct {
        const char *name;
        Messages messages;
        const char *help;
    } table[] = {
        {"--kmsg-none", Messages::none, "Only the first line of an error, and no warnings"},
        {"--kmsg-error", Messages::errors, "Errors and warnings (default)"},
        {"--kmsg-warning", Messages::all, "Also remarks, such as which backend works and why"},
    };
    for (const auto &[name, messages, help] : table) {
        app.add_flag_callback(
               name, [this, chosen = messages] { messages_ = chosen; }, help)
            ->trigger_on_parse()
            ->group(group);
    }
}

void Talk::say(std::string_view text) const
{
    cli::say(command_, text);
}

std::function<void(std::string_view)> Talk::phases()
{
    if (verbose_ == 0 && !json_)
        return {};
    return [this](std::string_view text) {
        const uint64_t now = now_ns();
        const uint64_t took = now - last_;
        const uint64_t since = now - begun_;
        last_ = now;
        phases_.push_back({{"phase", text}, {"ns", took}});
        if (verbose_ > 0)
            say(fmt::format("{} ({}, {} since the start)", text, duration_text(took),
                            duration_text(since)));
    };
}

std::function<void(std::string_view)> Talk::remarks()
{
    if (verbose_ == 0 && messages_ != Messages::all)
        return {};
    return [this](std::string_view text) { say(text); };
}

std::function<void(uint64_t, uint64_t)> Talk::progress(const std::string &what)
{
    line_ = std::make_unique<ProgressLine>(what, !quiet_ && !json_);
    return line_->reporter();
}

void Talk::notices(const std::vector<std::string> &list)
{
    end_progress();
    for (const std::string &notice : list) {
        notices_.push_back(notice);
        if (messages_ != Messages::none && !json_)
            say(notice);
    }
}

// Names may hold invalid UTF-8 and terminal control characters, so the output is escaped ASCII.
void Talk::print(const Json &object, FILE *to) const
{
    cryo::print(to, "{}\n", object.dump(-1, ' ', true, Json::error_handler_t::replace));
    fflush(to);
}

void Talk::print_complete(Json object, FILE *to) const
{
    object["phases"] = phases_;
    object["notices"] = notices_;
    print(object, to);
}

void Talk::result(const std::string &sentence, Json object, FILE *to)
{
    end_progress();
    if (json_) {
        print_complete(std::move(object), to);
    } else if (!quiet_) {
        cryo::print(to, "{}\n", printable_message(sentence));
        fflush(to);
    }
}

void Talk::summary(const std::string &sentence, Json object, FILE *to)
{
    end_progress();
    if (json_)
        print_complete(std::move(object), to);
    else if (verbose_ > 0)
        say(sentence);
}

int Talk::fail(const Error &error, int value)
{
    end_progress();
    if (json_)
        print({{"error", error_json(error)}}, stdout);
    const std::string &text = error.text();
    return messages_ == Messages::none
               ? cli::fail(command_, Error(error.code(), text.substr(0, text.find('\n'))), value)
               : cli::fail(command_, error, value);
}

} // namespace cryo::cli
