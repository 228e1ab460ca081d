// SPDX-License-Identifier: Apache-2.0
#include "store/claim.hpp"

#include "base/contents.hpp"

#include <cerrno>
#include <climits>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <random>
#include <unistd.h>

namespace cryo::store {

namespace {

using nlohmann::json;

constexpr size_t most_text = 4096;
constexpr std::chrono::seconds between_renewals{60};
constexpr int most_tries = 3;

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

bool is_held(const std::optional<Claimant> &by, std::optional<std::chrono::seconds> age)
{
    return (!by || !by->has_ended()) && (!age || *age <= claim_holds);
}

Claim::Claim(const Settings &settings, const Location &place, const Terms &terms)
    : place_(place), at_(place.within(claim_name)), client_(settings, {.patience = terms.patience}),
      at_once_(settings, {.patience = std::chrono::seconds(0)})
{}

Error Claim::taken_by(const std::optional<Claimant> &other) const
{
    const std::string who = other ? fmt::format("pid {} on {}", other->pid, other->host)
                                  : std::string("which has said nothing of itself");
    return {EBUSY,
            fmt::format("{}: another cr_store ({}) pushes to it or removes it; if that one has "
                        "ended, try again {} minutes later, or remove the object {}",
                        place_.text(), who,
                        std::chrono::duration_cast<std::chrono::minutes>(claim_holds).count(),
                        at_.text())};
}

Result<std::unique_ptr<Claim>> Claim::take(const Settings &settings, const Location &place,
                                           const Terms &terms)
{
    std::unique_ptr<Claim> claim(new Claim(settings, place, terms));
    if (Result<void> begun = claim->begin(); !begun)
        return begun.error();
    claim->renewal_ =
        std::jthread([self = claim.get()](const std::stop_token &over) { self->keep_up(over); });
    return claim;
}

Result<void> Claim::begin()
{
    std::optional<Claimant> other;
    for (int tries = 0; tries < most_tries; tries++) {
        const Result<Reading> there = client_.look(at_, most_text);
        if (!there && there.error().code() != ENOENT)
            return there.error();
        other = there ? Claimant::parse(there->text) : std::nullopt;
        is_taken_ = other && other->id == self_.id; // it was written, but the answer was lost
        if (is_taken_)
            return {};
        if (there && is_held(other, there->age))
            return taken_by(other);
        const Result<std::optional<std::string>> written =
            client_.put_over(at_, self_.text(), there ? there->version : "");
        if (!written)
            return written.error();
        if (!*written)
            continue; // another one was faster, or an answer was lost
        is_taken_ = true;
        return check();
    }
    return taken_by(other);
}

// The version that is there, if it is ours. Of servers that do not know conditions, the last one
// that wrote has it.
Result<std::string> Claim::own_version(Client &client) const
{
    Result<Reading> there = client.look(at_, most_text);
    if (!there && there.error().code() != ENOENT)
        return there.error();
    const std::optional<Claimant> who = there ? Claimant::parse(there->text) : std::nullopt;
    if (!who || who->id != self_.id)
        return taken_by(who);
    return std::move(there->version);
}

Result<void> Claim::check()
{
    const Result<std::string> ours = own_version(client_);
    return ours ? Result<void>() : ours.error();
}

// What fails here, check() sees. The answer to an earlier renewal may have been lost, so the store
// is asked which version it has.
void Claim::renew()
{
    if (const Result<std::string> version = own_version(at_once_))
        static_cast<void>(at_once_.put_over(at_, self_.text(), *version));
}

void Claim::keep_up(const std::stop_token &over)
{
    std::unique_lock lock(mutex_);
    while (!woken_.wait_for(lock, over, between_renewals, [&] { return over.stop_requested(); }))
        renew();
}

Claim::~Claim()
{
    renewal_.request_stop();
    if (renewal_.joinable())
        renewal_.join();
    if (is_taken_ && own_version(at_once_))
        static_cast<void>(at_once_.remove(at_)); // else it holds for a while
}

} // namespace cryo::store
