// SPDX-License-Identifier: Apache-2.0
#include "coord/supervised.hpp"

#include <algorithm>
#include <unistd.h>
#include <utility>

namespace cryo::coord {

using nlohmann::json;

// The daemon ignores SIGPIPE: a supervisor that was killed needs nothing any more.
void Supervised::say(const json &object)
{
    const std::string line = object.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
    if (to_ && write(to_.get(), line.data(), line.size()) < 0)
        to_.reset();
}

Supervised::Supervised(Fd to, int64_t lease_ns) : to_(std::move(to))
{
    say({{"begun", true}, {"lease_ns", lease_ns}});
}

void Supervised::elsewhere()
{
    if (!std::exchange(is_elsewhere_, true))
        say({{"elsewhere", true}});
}

void Supervised::saving()
{
    say({{"saving", true}});
}

void Supervised::running(bool elsewhere, bool unfenced)
{
    if (has_run_)
        return;
    has_run_ = true;
    say({{"running", true}, {"elsewhere", elsewhere || is_elsewhere_}, {"unfenced", unfenced}});
}

void Supervised::launcher_ended(bool outlived, const Endings &endings)
{
    say({{"launcher_ended", true},
         {"outlived", outlived},
         {"unfinished", endings.are_unfinished()},
         {"fault", endings.is_fault()}});
}

void Supervised::lost(const std::string &node, int64_t until_ns)
{
    until_ns_ = std::max(until_ns_, until_ns);
    say({{"lost", node}, {"until_ns", until_ns}});
}

void Supervised::ended(const std::set<std::string> &left, int64_t until_ns)
{
    say({{"ended", true}, {"left", left}, {"until_ns", std::max(until_ns_, until_ns)}});
}

} // namespace cryo::coord
