// SPDX-License-Identifier: Apache-2.0
//
// The nodes that a supervised job has lost, and the spares that may take their places. A lost node
// is not used again in this run, even if it comes back: nobody knows what it has missed.
//
//     Nodes nodes(policy.spares, policy.packs);
//     nodes.lost("n2");
//     Result<std::vector<std::string>> more = nodes.options(snapshot, launcher); // of ompi-restart
//     teller.say(nodes.told());                          // which ranks go where
//     nodes.came();                                      // all ranks are there; or
//     nodes.failed();
//
// Launchers may know a spare by another name, or an address, than the one that its node has in
// snapshots. So a spare that has come back with the job is not offered for snapshots made since: if
// it is there, it is one of their nodes.
#pragma once

#include "coord/new_hosts.hpp"

#include <map>
#include <string>
#include <vector>

namespace cryo::recover {

class Nodes
{
  public:
    Nodes(std::vector<std::string> spares, bool packs);

    void lose(const std::string &name) { use_.lost.insert(name); }
    bool any_lost() const { return !use_.lost.empty(); }
    std::vector<std::string> lost() const { return {use_.lost.begin(), use_.lost.end()}; }
    std::vector<std::string> spares_left() const;

    // None, as long as no node is lost. EHOSTUNREACH: there is no place for all ranks.
    Result<std::vector<std::string>> options(const coord::Snapshot &snapshot,
                                             const std::string &launcher);
    const std::string &told() const { return told_; } // of the last options; "": nothing new
    void came();
    // The launcher ended before all ranks were there: spares with which it was tried for the first
    // time may be the cause, and are not tried again.
    void failed();

  private:
    coord::NodesToUse use_;
    std::vector<std::string> used_;    // of the last options
    int seq_ = 0;                      // of their snapshot
    std::map<std::string, int> taken_; // have ranks since that snapshot, or had
    std::string told_;
};

} // namespace cryo::recover
