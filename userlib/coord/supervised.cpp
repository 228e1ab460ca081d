// SPDX-License-Identifier: Apache-2.0
#include "coord/supervised.hpp"

#include <nlohmann/json.hpp>
#include <unistd.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

// The daemon ignores SIGPIPE: a supervisor that was killed needs nothing any more.
void Supervised::say(const std::string &line)
{
    if (to_ && write(to_.get(), line.data(), line.size()) < 0)
        to_.reset();
}

Supervised::Supervised(Fd to) : to_(std::move(to))
{
    say(json({{"begun", true}}).dump() + "\n");
}

void Supervised::elsewhere()
{
    if (!std::exchange(is_elsewhere_, true))
        say(json({{"elsewhere", true}}).dump() + "\n");
}

void Supervised::saving()
{
    say(json({{"saving", true}}).dump() + "\n");
}

void Supervised::running(bool elsewhere)
{
    if (has_run_)
        return;
    has_run_ = true;
    say(json({{"running", true}, {"elsewhere", elsewhere || is_elsewhere_}}).dump() + "\n");
}

void Supervised::launcher_ended(bool outlived)
{
    say(json({{"launcher_ended", true}, {"outlived", outlived}}).dump() + "\n");
}

void Supervised::ended(std::set<std::string> there)
{
    there.merge(lost_);
    const json line = {{"ended", true}, {"left", there}};
    say(line.dump(-1, ' ', true, json::error_handler_t::replace) + "\n");
}

} // namespace cryo::coord
