// SPDX-License-Identifier: Apache-2.0
#include "recover/policy.hpp"

#include "base/contents.hpp"
#include "cli/unknown_option.hpp"
#include "coord/new_hosts.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <map>
#include <toml++/toml.h>
#include <vector>

namespace cryo::recover {

namespace {

constexpr int most_faults = 1000;
constexpr int last_exit = 255;

using Names = std::vector<std::string>;

// Reads the tables of one file, and keeps the first error.
class Reader
{
  public:
    explicit Reader(const std::string &path) : path_(path) {}

    Result<Policy> read(const toml::table &all);

  private:
    void read_recovery(const toml::node &value);
    void read_faults(const toml::node &value);
    void read_process(const toml::table &fault);
    void read_physical(const toml::table &fault);
    void read_memory(const toml::table &fault, bool transfers);
    void read_signals(const toml::node &list);
    void read_exits(const toml::node &list);
    void wrong(const toml::node &where, const std::string &what);
    // The names are all that the table may have.
    void check_names(const toml::table &table, const std::string &of, const Names &known);
    // The value has to be one of `known`. `later`: those that are known and not there yet.
    std::string word_of(const toml::table &table, const char *name, const Names &known,
                        const Names &later = {});
    const toml::array *list_of(const toml::node &value, const char *name);

    const std::string &path_;
    Policy policy_;
    std::vector<Error> errors_;
};

std::string no_such(const std::string &what, const std::string &word, const Names &known)
{
    const std::string like = cli::most_like(word, known);
    return fmt::format("{} '{}' is unknown ({})", what, word,
                       like.empty() ? fmt::format("known: {}", fmt::join(known, ", "))
                                    : fmt::format("did you mean '{}'?", like));
}

void Reader::wrong(const toml::node &where, const std::string &what)
{
    errors_.emplace_back(EINVAL, fmt::format("{}:{}: {}", path_, where.source().begin.line, what));
}

void Reader::check_names(const toml::table &table, const std::string &of, const Names &known)
{
    for (const auto &[key, value] : table) {
        const std::string name(key.str());
        if (std::ranges::find(known, name) == known.end())
            wrong(value, no_such(of, name, known));
    }
}

std::string Reader::word_of(const toml::table &table, const char *name, const Names &known,
                            const Names &later)
{
    const toml::node *value = table.get(name);
    if (value == nullptr)
        return {};
    const auto *text = value->as_string();
    if (text == nullptr) {
        wrong(*value, fmt::format("{} has to be a text", name));
    } else if (std::ranges::find(later, text->get()) != later.end()) {
        wrong(*value, fmt::format("{} = \"{}\": here there is only \"{}\"", name, text->get(),
                                  fmt::join(known, "\" and \"")));
    } else if (std::ranges::find(known, text->get()) == known.end()) {
        wrong(*value, no_such(name, text->get(), known));
    } else {
        return text->get();
    }
    return {};
}

const toml::array *Reader::list_of(const toml::node &value, const char *name)
{
    if (value.as_array() == nullptr)
        wrong(value, fmt::format("{} has to be a list", name));
    return value.as_array();
}

void Reader::read_recovery(const toml::node &value)
{
    const toml::table *table = value.as_table();
    if (table == nullptr)
        return wrong(value, "recovery has to be a table, as [recovery]");
    check_names(*table, "in [recovery],", {"protocol", "without_image"});
    word_of(*table, "protocol", {"coordinated"}, {"pessimistic", "send-deterministic"});
    policy_.begins_again = word_of(*table, "without_image", {"begin", "give-up"}) != "give-up";
}

bool ends_nothing(const std::string &signal)
{
    const Names all = {"CHLD", "CONT", "STOP", "TSTP", "TTIN", "TTOU", "URG", "WINCH"};
    return std::ranges::find(all, signal) != all.end();
}

// Of 1 to 31 without those that end no program: whoever names one of them would wait in vain.
std::map<std::string, int> ending_signals()
{
    std::map<std::string, int> found;
    for (int signal = 1; signal <= 31; signal++) {
        const char *name = sigabbrev_np(signal);
        if (name != nullptr && !ends_nothing(name))
            found.emplace(name, signal);
    }
    return found;
}

void Reader::read_signals(const toml::node &value)
{
    const toml::array *list = list_of(value, "signals");
    if (list == nullptr)
        return;
    policy_.signals.clear();
    for (const toml::node &one : *list) {
        const auto *text = one.as_string();
        if (text == nullptr) {
            wrong(one, "signals has to be a list of names, such as \"KILL\"");
            continue;
        }
        std::string name = text->get();
        if (name.starts_with("SIG"))
            name.erase(0, 3);
        const std::map<std::string, int> known = ending_signals();
        if (const auto found = known.find(name); found != known.end()) {
            policy_.signals.insert(found->second);
            continue;
        }
        Names names;
        for (const auto &[ends, number] : known)
            names.push_back(ends);
        wrong(one, ends_nothing(name) ? fmt::format("signal '{}' ends no program", name)
                                      : no_such("signal", name, names));
    }
}

void Reader::read_exits(const toml::node &value)
{
    const toml::array *list = list_of(value, "exits");
    if (list == nullptr)
        return;
    for (const toml::node &one : *list) {
        const auto *number = one.as_integer();
        if (number == nullptr || number->get() < 1 || number->get() > last_exit)
            wrong(one, "exits has to be a list of exit statuses from 1 to 255");
        else
            policy_.exits.insert(static_cast<int>(number->get()));
    }
}

void Reader::read_process(const toml::table &fault)
{
    check_names(fault, "in [[fault]],",
                {"detector", "recover", "memory", "lazy", "signals", "exits", "limit"});
    read_memory(fault, word_of(fault, "recover", {"restart", "transfer"},
                               {"ignore", "migration"}) == "transfer");
    if (const toml::node *list = fault.get("signals"))
        read_signals(*list);
    if (const toml::node *list = fault.get("exits"))
        read_exits(*list);
    if (const toml::node *limit = fault.get("limit")) {
        const auto *number = limit->as_integer();
        if (number == nullptr || number->get() < 1 || number->get() > most_faults)
            wrong(*limit, fmt::format("limit has to be a number from 1 to {}", most_faults));
        else
            policy_.limit = static_cast<unsigned>(number->get());
    }
}

// "4GiB" in bytes; 0: it is no such text.
uint64_t size_in(const toml::node &value)
{
    std::string text = value.value_exact<std::string>().value_or("");
    if (text.empty() || std::isdigit(static_cast<unsigned char>(text.front())) == 0)
        return 0;
    try {
        CLI::AsSizeValue(false)(text);
    } catch (const CLI::ValidationError &) {
        return 0;
    }
    return std::strtoull(text.c_str(), nullptr, 10);
}

// No default: jobs, containers and services count this memory as the program's, so none is taken
// unless the user has said how much.
void Reader::read_memory(const toml::table &fault, bool transfers)
{
    const toml::node *memory = fault.get("memory");
    const toml::node *lazy = fault.get("lazy");
    for (const toml::node *one : {memory, lazy}) {
        if (one != nullptr && !transfers)
            wrong(*one, fmt::format("{} belongs to recover = \"transfer\"",
                                    one == memory ? "memory" : "lazy"));
    }
    if (!transfers)
        return;
    if (lazy != nullptr && lazy->as_boolean() == nullptr)
        wrong(*lazy, "lazy has to be true or false");
    policy_.maps = lazy != nullptr && lazy->value_or(false);
    if (memory == nullptr)
        return wrong(*fault.get("recover"), "recover = \"transfer\" wants to know how much memory "
                                            "an image may take, such as memory = \"4GiB\"");
    const uint64_t bytes = size_in(*memory);
    if (bytes == 0)
        return wrong(*memory, "memory has to be a size above 0, such as \"4GiB\"");
    policy_.standby = bytes;
}

void Reader::read_faults(const toml::node &value)
{
    const toml::array *list = value.as_array();
    if (list == nullptr || list->empty())
        return wrong(value, "fault has to be a table, as [[fault]]");
    std::set<std::string> seen;
    for (const toml::node &one : *list) {
        const toml::table *fault = one.as_table();
        if (fault == nullptr)
            return wrong(one, "fault has to be a table, as [[fault]]");
        const std::string named =
            word_of(*fault, "detector", {"process", "physical"}, {"network", "repeated"});
        const std::string detector = named.empty() ? "process" : named;
        if (!seen.insert(detector).second)
            wrong(one, fmt::format("there are two [[fault]] with detector = \"{}\"", detector));
        if (detector == "physical")
            read_physical(*fault);
        else
            read_process(*fault);
    }
}

void Reader::read_physical(const toml::table &fault)
{
    check_names(fault, "in [[fault]] of nodes,", {"detector", "recover", "spares", "pack"});
    const toml::node *recover = fault.get("recover");
    if (recover != nullptr && recover->value_exact<std::string>() == "transfer")
        wrong(*recover,
              "recover = \"transfer\": of nodes there is only \"migration\", since images "
              "are held in the memory of the node of cr_run alone");
    else
        word_of(fault, "recover", {"migration"}, {"ignore", "restart"});
    if (const toml::node *pack = fault.get("pack")) {
        if (pack->as_boolean() == nullptr)
            wrong(*pack, "pack has to be true or false");
        else
            policy_.packs = pack->as_boolean()->get();
    }
    const toml::node *spares = fault.get("spares");
    const toml::array *list = spares != nullptr ? list_of(*spares, "spares") : nullptr;
    if (list == nullptr)
        return;
    for (const toml::node &one : *list) {
        const auto *name = one.as_string();
        if (name == nullptr || !coord::is_host_name(name->get()))
            wrong(one, "spares has to be a list of names of hosts, such as \"n9\"");
        else
            policy_.spares.push_back(name->get());
    }
}

Result<Policy> Reader::read(const toml::table &all)
{
    check_names(all, "the table", {"recovery", "fault"});
    if (const toml::node *recovery = all.get("recovery"))
        read_recovery(*recovery);
    if (const toml::node *faults = all.get("fault"))
        read_faults(*faults);
    if (!errors_.empty())
        return errors_.front();
    return policy_;
}

} // namespace

std::string signal_name(int signal)
{
    const char *name = sigabbrev_np(signal);
    return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", signal);
}

Result<Policy> parse_policy(std::string_view text, const std::string &path)
{
    try {
        return Reader(path).read(toml::parse(text));
    } catch (const toml::parse_error &error) {
        return Error(
            EINVAL, fmt::format("{}:{}: {}", path, error.source().begin.line, error.description()));
    }
}

Result<Policy> read_policy(const std::string &path)
{
    const Result<std::string> text = contents(path);
    if (!text)
        return text.error().within("--recover");
    return parse_policy(*text, path);
}

} // namespace cryo::recover
