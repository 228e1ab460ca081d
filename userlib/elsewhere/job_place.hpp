// SPDX-License-Identifier: Apache-2.0
//
// A place for the snapshots of an MPI job that is no directory: a series at a server of images
// (cryo://HOST[:PORT]/JOB), or a place in an object store (s3://BUCKET/JOB). It has what the job's
// directory had when that was last sent, as a whole.
//
//     Result<JobPlace> place = JobPlace::parse("cryo://n7/job9");
//     Result<void> sent = place->push("/pfs/ompi_global_snapshot_412.ckpt", {.rate = rate});
//     Result<std::string> directory = place->pull("/pfs/job9");
#pragma once

#include "base/result.hpp"
#include "cli/stored.hpp"

#include <string>
#include <string_view>
#include <vector>

namespace cryo::elsewhere {

class JobPlace
{
  public:
    // Whether it is one, good or bad, and not a directory.
    static bool is_meant(std::string_view text);
    // ENOTSUP: of a scheme that is not known.
    static Result<JobPlace> parse(const std::string &text);

    // As it is normally written, without a slash at its end.
    const std::string &text() const { return text_; }
    // What would fail at once if something were sent: there is no key, or there are no credentials;
    // with `connect` there is no server, or it does not let us in.
    Result<void> check(bool connect) const;
    Result<bool> has_snapshots() const;
    // All finished snapshots in the directory, and nothing else; what is there is not sent again.
    // The place has what it had until all are there. Returns notices.
    Result<std::vector<std::string>> push(const std::string &directory,
                                          const cli::PushOptions &how) const;
    // The directory is made.
    Result<std::string> pull(const std::string &directory) const;

  private:
    explicit JobPlace(std::string text) : text_(std::move(text)) {}
    bool is_stored() const { return cli::is_stored(text_); }

    std::string text_;
};

} // namespace cryo::elsewhere
