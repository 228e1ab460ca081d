// SPDX-License-Identifier: Apache-2.0
//
// A series of images that is no directory, as the place to which automatic checkpoints are copied:
// at a server (--second cryo://HOST[:PORT]/SERIES), or in an object store (--second
// s3://BUCKET/SERIES), where each image is a place of its own below that.
//
//     auto second = RemoteSeries::at(*RemoteSeries::place("cryo://n7/solver"), bytes_a_second);
//     Result<std::string> newest = second->newest();
//     second->send(series, {"context.000003"}, may_go);
#pragma once

#include "base/result.hpp"
#include "keeper/series.hpp"

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace cryo::keeper {

class RemoteSeries
{
  public:
    // As it is normally written, without a slash at its end. EINVAL: it is none. ENOTSUP: of a
    // scheme that is not known.
    static Result<std::string> place(const std::string &url);
    // Of such a place.
    static std::shared_ptr<const RemoteSeries> at(const std::string &place, uint64_t bandwidth);
    virtual ~RemoteSeries() = default;

    // The newest image there; "" if there is none.
    Result<std::string> newest() const;
    // Sends what is not there, and then removes those of `may_go` that `from` does not have any
    // more, also where they were only begun. EEXIST: another image has the name.
    Result<void> send(const Series &from, const std::vector<std::string> &names,
                      const std::set<std::string> &may_go) const;

  protected:
    struct Image {
        uint64_t bytes = 0;
        std::string checksum = {}; // if the place tells it
        bool is_begun = false;     // it was never complete
    };
    using Images = std::map<std::string, Image>; // by their names

    virtual Result<Images> list() const = 0;
    // Whether put() compares what has the name there, and so may be given it again.
    virtual bool compares() const { return false; }
    virtual Result<void> put(const std::string &name, const std::string &path) const = 0;
    virtual Result<void> remove(const std::string &name, const Image &image) const = 0;
};

} // namespace cryo::keeper
