// SPDX-License-Identifier: Apache-2.0
// Which children a process makes before it makes a session of its own; and whether all have
// somebody to make them.
#include "restore/nursery.hpp"

namespace cryo::restore {

// Forged images may have processes that descend from themselves.
bool Nursery::all_descend_from_us() const
{
    for (const Newborn &one : list_) {
        size_t steps = 0;
        for (int above = one.parent; above != nobody;
             above = list_[static_cast<size_t>(above)].parent) {
            if (++steps > list_.size())
                return false;
        }
    }
    return true;
}

// In which session each process has to be made: a leader in that of its descendants, if they have
// not been made in its own one.
std::vector<int> Nursery::sessions_at_birth() const
{
    std::vector<int> sessions(list_.size());
    for (size_t i = 0; i < list_.size(); i++)
        sessions[i] = leads(i) ? any_session : list_[i].session;
    for (size_t i = 0; i < list_.size(); i++) {
        const int session = list_[i].session;
        int above = leads(i) ? nobody : list_[i].parent;
        while (above != nobody && above != session && leads(static_cast<size_t>(above))) {
            sessions[static_cast<size_t>(above)] = session;
            above = list_[static_cast<size_t>(above)].parent;
        }
    }
    return sessions;
}

// Whether a child belongs to a session that its parent was in before making its own.
bool Nursery::goes_first(size_t child, int parent) const
{
    const int session = born_in_[child];
    return parent != nobody && leads(static_cast<size_t>(parent)) && session != parent &&
           session != any_session;
}

} // namespace cryo::restore
