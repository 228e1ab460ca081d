// SPDX-License-Identifier: Apache-2.0
//
// A series of images at a server (cr_server), as the place to which automatic checkpoints are
// copied: --second cryo://HOST[:PORT]/SERIES.
//
//     AtServer second(*server::Url::parse("cryo://n7/solver/"), bytes_a_second);
//     Result<std::string> newest = second.newest();
//     second.send(series, {"context.000003"}, may_go);
#pragma once

#include "base/result.hpp"
#include "keeper/series.hpp"
#include "server/url.hpp"

#include <cstdint>
#include <set>
#include <string>
#include <vector>

namespace cryo::keeper {

class AtServer
{
  public:
    AtServer(server::Url series, uint64_t bandwidth)
        : series_(std::move(series)), bandwidth_(bandwidth)
    {}

    // "cryo://HOST:PORT/SERIES", as it is normally written; EINVAL: it is none.
    static Result<std::string> place(const std::string &url);
    // Of such a place.
    static AtServer at(const std::string &place, uint64_t bandwidth);

    // The newest image there; "" if there is none.
    Result<std::string> newest() const;
    // Sends what is not there, and then removes those of `may_go` that `from` does not have any
    // more. EEXIST: another image has the name.
    Result<void> send(const Series &from, const std::vector<std::string> &names,
                      const std::set<std::string> &may_go) const;

  private:
    server::Url url_of(const std::string &name) const;

    server::Url series_;
    uint64_t bandwidth_;
};

} // namespace cryo::keeper
