// SPDX-License-Identifier: Apache-2.0
#include "coord/agreement.hpp"

#include "coord/daemon.hpp"

namespace cryo::coord {

using Outcome = bookmark::Node::Outcome;

Result<void> Agreement::begin()
{
    asked_ = true;
    const Result<uint32_t> epoch = local_.node()->request();
    if (!epoch)
        return epoch.error();
    return {};
}

void Agreement::abandon()
{
    if (asked_ && outcome() == Outcome::working)
        local_.node()->abandon({.doing = bookmark::Doing::failed});
}

void Agreement::inquire()
{
    local_.node()->inquire();
}

void Agreement::decline()
{
    if (!asked_ && local_.node() != nullptr)
        local_.node()->decline();
}

bool Agreement::stands_still() const
{
    const bookmark::Node *node = local_.node();
    return node != nullptr && node->at_cut();
}

// No rank asks for its image before all of them stand still, of which this node's part of the tree
// knows first.
bool Agreement::images_are_due() const
{
    const bookmark::Node *node = local_.node();
    const bool over = node != nullptr && node->outcome() != Outcome::working;
    return asked_ && node != nullptr && (over || node->at_cut());
}

Outcome Agreement::outcome() const
{
    const bookmark::Node *node = local_.node();
    return node != nullptr ? node->outcome() : Outcome::none;
}

std::string Agreement::reason() const
{
    return bookmark::describe(local_.node()->reason());
}

} // namespace cryo::coord
