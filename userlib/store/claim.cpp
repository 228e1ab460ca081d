// SPDX-License-Identifier: Apache-2.0
#include "store/claim.hpp"

#include <cerrno>
#include <fmt/format.h>

namespace cryo::store {

namespace {

constexpr size_t most_text = 4096;
constexpr std::chrono::seconds between_renewals{60};
constexpr int most_tries = 3;

} // namespace

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
