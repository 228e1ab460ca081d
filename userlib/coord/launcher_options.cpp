// SPDX-License-Identifier: Apache-2.0
#include "coord/launcher_options.hpp"

#include "coord/launch.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <optional>
#include <span>
#include <sstream>
#include <string_view>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

enum class Again {
    no,        // Cryo gives it itself, or the images have what it says
    yes,       //
    file,      // its value is the name of a file
    parameter, // its first value names what the second one sets
    variable,  // NAME or NAME=VALUE
};

// What an option says of where ranks go.
enum class Places {
    nothing, //
    hosts,   // which hosts there are
    counts,  // how many ranks a host gets, or which one gets which
    order,   // in which order they go to the slots of the hosts
};

struct Option {
    std::string_view names; // without dashes, separated by spaces: which are one option
    int values;
    Again again;
    Places places = Places::nothing;
};

// Of Open MPI 4.1 and 5.0. Hosts are one option by all of its names: those that the user gives now
// replace the others.
constexpr Option of_open_mpi[] = {
    {"n np c", 1, Again::no},
    {"wd wdir set-cwd-to-session-dir", 1, Again::no},
    {"s preload-binary", 0, Again::no},
    {"preload-files", 1, Again::no},
    {"path", 1, Again::no},
    {"report-pid report-uri report-events xml-file ompi-server hnp", 1, Again::no},
    {"host H", 1, Again::yes, Places::hosts},
    {"hostfile machinefile default-hostfile", 1, Again::file, Places::hosts},
    {"rankfile rf", 1, Again::file, Places::counts},
    {"tune", 1, Again::file},
    {"am", 1, Again::yes},
    {"mca gmca", 2, Again::parameter},
    {"omca gomca", 2, Again::parameter},
    {"prtemca gprtemca", 2, Again::parameter},
    {"pmixmca gpmixmca", 2, Again::parameter},
    {"x", 1, Again::variable},
    {"map-by", 1, Again::yes, Places::order},
    {"rank-by", 1, Again::yes, Places::order},
    {"bind-to", 1, Again::yes},
    {"N npernode", 1, Again::yes, Places::counts},
    {"npersocket", 1, Again::yes, Places::counts},
    {"ppr", 1, Again::yes, Places::counts},
    {"cpus-per-proc cpus-per-rank", 1, Again::yes, Places::order},
    {"cpu-set cpu-list", 1, Again::yes},
    {"oversubscribe", 0, Again::yes},
    {"nooversubscribe", 0, Again::yes},
    {"nolocal", 0, Again::yes, Places::counts},
    {"pernode", 0, Again::yes, Places::counts},
    {"bynode byslot bycore", 0, Again::yes, Places::order},
    {"bind-to-core bind-to-socket", 0, Again::yes},
    {"use-hwthread-cpus", 0, Again::yes},
    {"report-bindings", 0, Again::yes},
    {"display-map", 0, Again::yes},
    {"display-allocation", 0, Again::yes},
    {"display", 1, Again::yes},
    {"tag-output", 0, Again::yes},
    {"timestamp-output", 0, Again::yes},
    {"merge-stderr-to-stdout", 0, Again::yes},
    {"output", 1, Again::yes},
    {"output-filename", 1, Again::file},
    {"stdin", 1, Again::yes},
    {"timeout", 1, Again::yes},
    {"allow-run-as-root", 0, Again::yes},
    {"prefix", 1, Again::yes},
    {"noprefix", 0, Again::yes},
    {"launch-agent", 1, Again::yes},
    {"personality", 1, Again::yes},
    {"runtime-options", 1, Again::yes},
    {"do-not-resolve", 0, Again::yes},
    {"leave-session-attached", 0, Again::yes},
    {"enable-recovery disable-recovery continuous", 0, Again::no},
    {"debug-daemons", 0, Again::yes},
    {"show-progress", 0, Again::yes},
    {"q quiet", 0, Again::yes},
    {"v verbose", 0, Again::yes},
};

// MPICH's.
constexpr Option of_hydra[] = {
    {"n np", 1, Again::no},
    {"pmi-port", 0, Again::no},
    {"wdir", 1, Again::no},
    {"hosts host", 1, Again::yes, Places::hosts},
    {"f hostfile machinefile machine", 1, Again::file, Places::hosts},
    {"ppn", 1, Again::yes, Places::counts},
    {"bind-to binding", 1, Again::yes},
    {"map-by", 1, Again::yes},
    {"membind", 1, Again::yes},
    {"topolib", 1, Again::yes},
    {"iface", 1, Again::yes},
    {"order-nodes", 1, Again::yes, Places::counts},
    {"skip-launch-node", 0, Again::yes, Places::counts},
    {"genv env", 2, Again::parameter},
    {"genvlist envlist", 1, Again::yes},
    {"genvall envall", 0, Again::yes},
    {"launcher bootstrap rsh", 1, Again::yes},
    {"launcher-exec bootstrap-exec", 1, Again::yes},
    {"rmk", 1, Again::yes},
    {"localhost", 1, Again::yes},
    {"prepend-rank l", 0, Again::yes},
    {"prepend-pattern", 1, Again::yes},
    {"outfile-pattern outfile", 1, Again::file},
    {"errfile-pattern errfile", 1, Again::file},
    {"disable-hostname-propagation", 0, Again::yes},
    {"enable-x disable-x", 0, Again::yes},
    {"disable-auto-cleanup enable-auto-cleanup", 0, Again::no},
    {"print-all-exitcodes", 0, Again::yes},
    {"usize", 1, Again::yes},
    {"verbose v", 0, Again::yes},
    {"debug", 0, Again::yes},
};

// Slurm's srun: an allocation decides the rest.
constexpr Option of_srun[] = {
    {"n ntasks", 1, Again::no},
    {"D chdir", 1, Again::no},
    {"J job-name", 1, Again::no},
    {"mpi", 1, Again::yes},
    {"N nodes", 1, Again::yes, Places::counts},
    {"w nodelist", 1, Again::yes, Places::hosts},
    {"x exclude", 1, Again::yes},
    {"c cpus-per-task", 1, Again::yes},
    {"ntasks-per-node", 1, Again::yes},
    {"ntasks-per-core", 1, Again::yes},
    {"cpu-bind", 1, Again::yes},
    {"mem-bind", 1, Again::yes},
    {"m distribution", 1, Again::yes},
    {"mem", 1, Again::yes},
    {"mem-per-cpu", 1, Again::yes},
    {"gres", 1, Again::yes},
    {"p partition", 1, Again::yes},
    {"A account", 1, Again::yes},
    {"q qos", 1, Again::yes},
    {"t time", 1, Again::yes},
    {"C constraint", 1, Again::yes},
    {"K kill-on-bad-exit", 0, Again::yes},
    {"O overcommit", 0, Again::yes},
    {"s oversubscribe", 0, Again::yes},
    {"overlap", 0, Again::yes},
    {"exclusive", 0, Again::yes},
    {"l label", 0, Again::yes},
    {"u unbuffered", 0, Again::yes},
    {"Q quiet", 0, Again::yes},
    {"v verbose", 0, Again::yes},
};

bool is_one_of(std::string_view names, std::string_view name)
{
    for (size_t at = 0; at < names.size();) {
        const size_t end = std::min(names.find(' ', at), names.size());
        if (names.substr(at, end - at) == name)
            return true;
        at = end + 1;
    }
    return false;
}

struct Given {
    const Option *option = nullptr;
    std::vector<std::string> words = {};
    std::string name = {}; // of the parameter or variable that it sets
    bool joined = false;   // the first word has the value, too: --map-by=node, -N2
};

// The options of one command line.
class Walk
{
  public:
    Walk(std::span<const Option> table, bool joins_letters)
        : table_(table), joins_letters_(joins_letters)
    {}

    // Of a whole command: up to the program, or the first option that is not known, which it
    // returns.
    std::string take(std::span<const std::string> words)
    {
        for (size_t i = 0; i < words.size() && words[i].starts_with('-') && words[i] != "--";) {
            std::optional<Given> one = option_at(words.subspan(i));
            if (!one)
                return words[i];
            i += one->words.size();
            given_.push_back(std::move(*one));
        }
        return {};
    }

    // Of words that are options only: what is not known is left out.
    void take_known(std::span<const std::string> words)
    {
        for (size_t i = 0; i < words.size();) {
            std::optional<Given> one =
                words[i].starts_with('-') ? option_at(words.subspan(i)) : std::nullopt;
            i += one ? one->words.size() : 1;
            if (one)
                given_.push_back(std::move(*one));
        }
    }

    const std::vector<Given> &given() const { return given_; }

  private:
    const Option *named(std::string_view name) const
    {
        const auto found = std::ranges::find_if(
            table_, [&](const Option &option) { return is_one_of(option.names, name); });
        return found != table_.end() ? &*found : nullptr;
    }

    std::optional<Given> option_at(std::span<const std::string> words) const
    {
        std::string_view word = words.front();
        const bool is_long = word.starts_with("--");
        word.remove_prefix(is_long ? 2 : 1);
        Given one = {.option = named(word)};
        if (const size_t equals = word.find('='); one.option == nullptr && equals != word.npos) {
            one.option = named(word.substr(0, equals));
            one.joined = true;
        } else if (one.option == nullptr && joins_letters_ && !is_long && word.size() > 1) {
            one.option = named(word.substr(0, 1));
            one.joined = true;
        }
        if (one.option == nullptr || (one.joined && one.option->values > 1))
            return {};
        const size_t count = 1 + (one.joined ? 0 : static_cast<size_t>(one.option->values));
        if (words.size() < count)
            return {};
        one.words.assign(words.begin(), words.begin() + static_cast<ptrdiff_t>(count));
        const bool is_named =
            one.option->again == Again::parameter || one.option->again == Again::variable;
        if (is_named && count > 1)
            one.name = one.words[1].substr(0, one.words[1].find('='));
        return one;
    }

    std::span<const Option> table_;
    bool joins_letters_;
    std::vector<Given> given_;
};

Places places_of(const Given &one)
{
    constexpr std::string_view kinds[] = {"ppr", "rankfile", "seq"};
    constexpr std::string_view counting =
        "rmaps rmaps_rank_file_path rmaps_ppr_pattern rmaps_base_pernode rmaps_base_n_pernode "
        "rmaps_base_n_persocket rmaps_base_no_schedule_local";
    Places places = one.option->places;
    if (one.option->again == Again::parameter && one.name.ends_with("default_hostfile"))
        places = Places::hosts;
    else if (one.option->again == Again::parameter && one.name.starts_with("rmaps") &&
             one.name.find("oversubscribe") == one.name.npos)
        places = is_one_of(counting, one.name) ? Places::counts : Places::order;
    const std::string &value = one.words.back();
    const bool is_of_kind = std::ranges::any_of(kinds, [&](std::string_view kind) {
        return value.starts_with(kind) || value.find(fmt::format("={}", kind)) != value.npos;
    });
    return places == Places::order && is_of_kind ? Places::counts : places;
}

bool names_hosts(const Given &one)
{
    return one.option->places == Places::hosts && one.option->again != Again::file;
}

bool has_counts(const Given &one)
{
    return names_hosts(one) && one.words.back().find(':') != std::string::npos;
}

bool contradict(const Given &one, const Given &other)
{
    const Places places = places_of(one);
    if (places == Places::hosts && places_of(other) == Places::hosts)
        return true;
    if (places == Places::counts && has_counts(other))
        return true;
    return one.option == other.option && one.name == other.name;
}

bool is_set(const std::string &variable)
{
    return sys::own_variable(variable.c_str()) != nullptr;
}

// What is preloaded belongs to the ranks, and their images have it.
bool is_for_others(const Given &one)
{
    if (one.option->again == Again::parameter)
        return is_set("OMPI_MCA_" + one.name) || is_set("PRTE_MCA_" + one.name) ||
               is_set("PMIX_MCA_" + one.name) || one.name == "LD_PRELOAD";
    if (one.option->again != Again::variable)
        return false;
    const bool has_value = one.words.back().find('=') != std::string::npos;
    return one.name == "LD_PRELOAD" || one.name.starts_with("CRYO_") ||
           (!has_value && !is_set(one.name));
}

Walk walk_of(const std::string &launcher)
{
    if (is_srun(launcher))
        return {of_srun, true};
    return is_hydra(launcher) ? Walk(of_hydra, false) : Walk(of_open_mpi, false);
}

// A name of a file is the first command's, which may have run elsewhere.
std::vector<std::string> words_again(Given one, const std::string &directory)
{
    if (one.option->again != Again::file)
        return one.words;
    std::string &word = one.words.back();
    const size_t at = one.joined ? word.find('=') + 1 : 0;
    const fs::path file = word.substr(at);
    if (file.is_relative() && !directory.empty())
        word = word.substr(0, at) + (fs::path(directory) / file).lexically_normal().string();
    return one.words;
}

} // namespace

std::string placing_option(const std::string &launcher, const std::vector<std::string> &words)
{
    Walk walk = walk_of(launcher);
    walk.take_known(words);
    const auto found = std::ranges::find_if(
        walk.given(), [](const Given &one) { return places_of(one) != Places::nothing; });
    return found != walk.given().end() ? found->words.front() : std::string();
}

std::vector<std::string> host_options(const std::string &launcher, const std::string &hosts)
{
    if (hosts.empty())
        return {};
    return {is_hydra(launcher) ? "-hosts" : "--host", hosts};
}

namespace {

unsigned count_in(std::string_view text)
{
    unsigned count = 0;
    std::from_chars(text.data(), text.data() + text.size(), count);
    return count;
}

// "n1", "n1:4", and in a file "n1 slots=4" or "n1:4".
void add_host(std::vector<HostRanks> &all, std::string text)
{
    std::ranges::replace(text, '=', ' ');
    std::istringstream words(text);
    std::string name;
    words >> name;
    unsigned count = 0;
    if (const size_t colon = name.find(':');
        colon != name.npos && name.find(':', colon + 1) == name.npos) {
        count = count_in(std::string_view(name).substr(colon + 1));
        name.erase(colon);
    }
    if (!is_host_name(name)) // such as an address of IPv6, whose colons launchers do not take
        return;
    for (std::string word; words >> word;) {
        if (is_one_of("slots cpu count", word) && words >> word)
            count = count_in(word);
    }
    const auto known = std::ranges::find(all, name, &HostRanks::name);
    HostRanks &host = known != all.end() ? *known : all.emplace_back(HostRanks{.name = name});
    host.slots += std::max(count, 1U);
}

} // namespace

std::vector<HostRanks> listed_hosts(const std::vector<std::string> &command,
                                    const std::string &directory)
{
    std::vector<HostRanks> all;
    if (command.empty() || !is_launcher(command.front()) || is_srun(command.front()))
        return all;
    Walk walk = walk_of(command.front());
    walk.take(std::span(command).subspan(1));
    const bool are_named = std::ranges::any_of(walk.given(), names_hosts);
    for (const Given &one : walk.given()) {
        // Of a file, only those count that are named beside it.
        if (one.option->places != Places::hosts || (are_named && !names_hosts(one)))
            continue;
        std::string value = words_again(one, directory).back();
        if (one.joined)
            value.erase(0, value.find('=') + 1);
        if (names_hosts(one)) {
            std::istringstream hosts(value);
            for (std::string host; std::getline(hosts, host, ',');)
                add_host(all, host);
            continue;
        }
        std::ifstream file(value);
        for (std::string line; std::getline(file, line);)
            add_host(all, line.substr(0, line.find('#')));
    }
    return all;
}

LauncherOptions launcher_options(const std::vector<std::string> &command,
                                 const std::string &directory,
                                 const std::vector<std::string> &instead, bool placed)
{
    if (command.empty() || !is_launcher(command.front()))
        return {};
    Walk now = walk_of(command.front());
    now.take_known(instead);
    Walk before = walk_of(command.front());
    LauncherOptions again;
    again.unknown = before.take(std::span(command).subspan(1));
    for (const Given &one : before.given()) {
        const auto replaces = [&](const Given &other) { return contradict(one, other); };
        if (one.option->again == Again::no || is_for_others(one) ||
            (placed && places_of(one) != Places::nothing) ||
            std::ranges::any_of(now.given(), replaces))
            continue;
        const std::vector<std::string> words = words_again(one, directory);
        again.words.insert(again.words.end(), words.begin(), words.end());
    }
    return again;
}

} // namespace cryo::coord
