// SPDX-License-Identifier: Apache-2.0
//
// Which processes a request means: those in its scope, and those that callbacks and other
// checkpoints add, without those that are left out.
//
//     InScope in_scope(412, options);
//     Result<std::vector<Relation>> found = in_scope.fresh(members);   // asked now, then members
//     in_scope.add({image::Scope::tree, 500});                         // a callback names another
//     ... until none is fresh, because all stand still ...
//     in_scope.finish(members);
#pragma once

#include "capture/gather/bystanders.hpp"
#include "capture/gather/everybody.hpp"

#include <set>
#include <string>
#include <sys/types.h>
#include <vector>

namespace cryo::capture {

class InScope
{
  public:
    struct Wanted {
        image::Scope scope;
        pid_t id;
    };

    InScope(pid_t id, const CheckpointOptions &options)
        : id_(id), bystanders_(options), scopes_{{options.scope, id}}
    {}

    // All that are neither members nor left out. Notes the zombies.
    Result<std::vector<Relation>> fresh(const Members &members);
    // Between being found and being asked, a process may have got another parent or become one of
    // our own commands: for example a child of vfork that was just being made.
    Result<bool> is_meant_still(const Relation &relation);

    // The request's own scope, and those added.
    const std::vector<Wanted> &scopes() const { return scopes_; }
    void add(const Wanted &wanted) { scopes_.push_back(wanted); }
    // Processes that are left out.
    const std::set<pid_t> &omitted() const { return omitted_; }
    void omit(pid_t pid) { omitted_.insert(pid); }
    // Only the request's own scope, without processes that are left out.
    void begin_anew();

    // All members stand still: keeps the zombies that matter to the image.
    void finish(const Members &members);
    const std::vector<Relation> &zombies() const { return zombies_; }
    // If `d` started this command, adds the SIGCHLD that reports this command's successful end.
    void tell_of_our_end(Description &d) const;
    // Why other processes are not among the members.
    const std::vector<std::string> &left_out() const { return left_out_; }
    // Requested as a single process, not as part of a tree or the like.
    bool is_by_itself(pid_t pid) const;
    // All processes in the image, including zombies, and those left out.
    std::set<pid_t> known(const Members &members) const;
    // The requested process, or the first member if that one left itself out.
    pid_t root(const Members &members) const;

  private:
    Result<std::vector<Relation>> everybody() const;
    Result<bool> is_left_out(const Relation &relation);
    void add_own_end(const Members &members);

    pid_t id_;
    Bystanders bystanders_;
    std::vector<Wanted> scopes_;
    std::vector<Relation> zombies_;
    std::set<pid_t> omitted_;
    std::vector<std::string> left_out_;
};

} // namespace cryo::capture
