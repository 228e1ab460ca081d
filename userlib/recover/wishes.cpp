// SPDX-License-Identifier: Apache-2.0
#include "recover/wishes.hpp"

#include <csignal>

namespace cryo::recover {

std::set<int> Wishes::ignored()
{
    std::set<int> found;
    for (const int signal : {SIGTERM, SIGINT, SIGQUIT, SIGHUP}) {
        struct sigaction action = {};
        if (sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN)
            found.insert(signal);
    }
    return found;
}

bool Wishes::asks(int signal)
{
    return signal == SIGTERM || signal == SIGINT || signal == SIGQUIT;
}

void Wishes::sent(int signal, bool is_there)
{
    sent_[signal] = false;
    if (signal == SIGHUP && !is_there && !ignored_.contains(signal))
        hung_up_ = true;
}

void Wishes::image_came()
{
    std::erase_if(sent_, [](const auto &one) { return one.second; });
    for (auto &[signal, image_since] : sent_)
        image_since = true;
}

int Wishes::end() const
{
    for (const auto &[signal, image_since] : sent_) {
        if (asks(signal) && !ignored_.contains(signal))
            return signal;
    }
    return hung_up_ ? SIGHUP : 0;
}

} // namespace cryo::recover
