// SPDX-License-Identifier: Apache-2.0
//
// The daemons of the job's nodes, as its first daemon knows them, by number: 0 is that one itself.
//
//     Members members(local);
//     Member &member = members.add(channel, "n4", first);
//     members.tell(member.number, message);
//     members.expel(member.number, "speaks for a rank that is not its own");
#pragma once

#include "coord/channel.hpp"

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace cryo::coord {

class Daemon;

struct Member { // a node
    uint32_t number = 0;
    std::string name = {};
    std::shared_ptr<Channel> channel = {}; // null: this node
    std::vector<std::string> addresses = {};
    uint16_t port = 0;
    bool placed = false; // in the tree
    // There, if what is said of a checkpoint is joined (joined_reports.hpp).
    std::optional<uint32_t> index = {};
    uint32_t above = 0;                               // the member
    std::chrono::steady_clock::time_point heard = {}; // when its last message came
};

class Members
{
  public:
    explicit Members(Daemon &local);

    Member &add(const std::shared_ptr<Channel> &channel, const std::string &node,
                const Message &first);
    std::optional<std::string> remove(uint32_t number); // its name; none: it was not there
    void blame(uint32_t number, std::string trouble);   // its daemon has no place in the tree
    const std::map<uint32_t, std::string> &in_trouble() const { return in_trouble_; }

    const std::map<uint32_t, Member> &all() const { return all_; }
    Member *find(uint32_t number); // null: it is gone
    const Member *find(uint32_t number) const;
    std::string name(uint32_t number) const;
    std::string names(const std::vector<uint32_t> &numbers) const; // of many, the first eight

    void tell(uint32_t number, const Message &message);
    void tell_all(const Message &message);
    // Along the tree, if that is how things are said in this job.
    void tell_along_tree(const Message &message);
    void set_joined(bool joined) { joined_ = joined; }
    void forget_tree();
    bool had_namesakes() const { return had_namesakes_; }
    // Ends the connection of a daemon that is not one of Cryo's, or a broken one.
    void expel(uint32_t number, const std::string &why);

  private:
    Daemon &local_;
    std::map<uint32_t, Member> all_;
    std::set<std::string> names_;                // of all of them
    std::map<uint32_t, std::string> in_trouble_; // by number: what it is
    uint32_t next_ = 1;
    bool joined_ = false;
    bool had_namesakes_ = false; // a node that says it is called as another one
};

} // namespace cryo::coord
