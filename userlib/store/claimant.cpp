// SPDX-License-Identifier: Apache-2.0
#include "store/claimant.hpp"

#include "base/contents.hpp"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <unistd.h>

namespace cryo::store {

namespace {

using nlohmann::json;

std::string machine_here()
{
    const Result<std::string> id = contents("/proc/sys/kernel/random/boot_id");
    return id ? id->substr(0, id->find('\n')) : std::string();
}

std::string space_here()
{
    std::error_code ignored;
    return std::filesystem::read_symlink("/proc/self/ns/pid", ignored).string();
}

// "": it has ended and is only not collected yet. None: no such process is seen.
std::optional<std::string> start_of(int pid)
{
    constexpr int start_field = 22, state_field = 3;
    const Result<std::string> text = contents(fmt::format("/proc/{}/stat", pid));
    const size_t name_end = text ? text->rfind(") ") : std::string::npos;
    if (name_end == std::string::npos)
        return {};
    std::string_view rest = std::string_view(*text).substr(name_end + 2);
    if (rest.starts_with('Z') || rest.starts_with('X'))
        return std::string();
    for (int field = state_field; field < start_field; field++)
        rest.remove_prefix(std::min(rest.find(' ') + 1, rest.size()));
    return std::string(rest.substr(0, rest.find(' ')));
}

} // namespace

Claimant Claimant::self()
{
    std::random_device random;
    char name[HOST_NAME_MAX + 1] = {};
    gethostname(name, sizeof(name) - 1);
    return {.id = fmt::format("{:08x}{:08x}{:08x}{:08x}", random(), random(), random(), random()),
            .host = static_cast<const char *>(name),
            .machine = machine_here(),
            .space = space_here(),
            .pid = getpid(),
            .started = start_of(getpid()).value_or("")};
}

std::optional<Claimant> Claimant::parse(const std::string &text)
{
    const json all = json::parse(text, nullptr, false);
    try {
        return Claimant{.id = all.at("id"),
                        .host = all.at("host"),
                        .machine = all.at("machine"),
                        .space = all.at("space"),
                        .pid = all.at("pid"),
                        .started = all.at("started")};
    } catch (const json::exception &) {
        return {};
    }
}

std::string Claimant::text() const
{
    const json all = {{"id", id},       {"host", host}, {"machine", machine},
                      {"space", space}, {"pid", pid},   {"started", started}};
    return all.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

bool Claimant::has_ended() const
{
    if (machine.empty() || machine != machine_here() || space.empty() || space != space_here() ||
        started.empty())
        return false;
    const std::optional<std::string> now = start_of(pid);
    // Another user's process may be hidden (hidepid), and there all the same.
    return now ? *now != started : kill(pid, 0) != 0 && errno == ESRCH;
}

} // namespace cryo::store
