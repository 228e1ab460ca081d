// SPDX-License-Identifier: Apache-2.0
//
// Reads the files of programs' metrics (program.hpp) in directories, and in the directories in
// these, one for each user. The file's owner decides whose program it tells of, never its contents,
// and nothing that a user can put there holds the reader, or is read twice.
//
//     Collector collector({"/var/lib/cryo-metrics"});
//     Result<void> good = collector.check();
//     Exposition text;
//     collector.look(text);
#pragma once

#include "base/directory.hpp"
#include "metrics/program.hpp"

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace cryo::metrics {

class Collector
{
  public:
    // `tell`: is told of each refused file, once; of a user with very many, of some.
    Collector(std::vector<std::string> directories, std::function<void(const Error &)> tell);

    // Whether the directories can be read, and only their owners can rename what is in them.
    Result<void> check() const;
    void look(Exposition &text);

  private:
    struct Place; // a directory, and whose files are in it
    struct Round; // what one look has found

    Place place_of(Directory directory, const struct stat &status);
    Result<Place> place_at(const std::string &path);
    void look_into(const Place &place, Round &round, bool deeper);
    using Use = std::function<Result<void>(std::string_view text, double written)>;
    void look_at_file(const Place &place, const std::string &name, const Use &use, Round &round);
    static Result<void> use_program(const Place &place, pid_t pid, std::string_view text,
                                    double written, Round &round);
    static Result<void> use_commands(const Place &place, std::string_view text, Round &round);
    void look_at_user(const Place &place, const std::string &name, Round &round);
    void refuse(const std::string &user, const char *reason, const Error &error, Round &round);
    std::string name_of(uid_t user);

    std::vector<std::string> directories_;
    std::function<void(const Error &)> tell_;
    std::map<std::string, std::set<std::string>> told_; // by user
    std::map<uid_t, std::string> names_;
};

} // namespace cryo::metrics
