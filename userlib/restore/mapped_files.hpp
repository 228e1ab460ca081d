// SPDX-License-Identifier: Apache-2.0
//
// The sources of the mapped memory of all processes of a restart: huge pages, and files. Each file
// is looked up once (trusted_path.hpp) and opened; checks, mappings and executions use that
// descriptor, which all processes inherit. So a file cannot be exchanged between the check and its
// use, and a library of a hundred processes is identified once. Nothing here may open by name what
// was found before.
//
//     Result<MappedFile *> found = mapped.find(planning, file, false);
#pragma once

#include "look/identity.hpp"
#include "restore/plan_parts.hpp"

#include <map>
#include <optional>
#include <set>
#include <string>
#include <tuple>

namespace cryo::restore {

struct MappedFile {
    int fd = -1; // inherited; it stays open as long as the plan
    uint64_t size = 0;
    std::optional<capture::Identity> identity; // computed when first needed
};

class MappedFiles
{
  public:
    // EPERM: another user's file has this name. Otherwise as open(2).
    Result<MappedFile *> find(Planning &p, const image::File &file, bool writes);
    // A descriptor of a directory owned by one of `owners`, or by an always trusted user.
    Result<int> directory(Planning &p, const std::string &path, const std::set<uint32_t> &owners);

    // Private huge pages of a size that processes are going to have.
    int64_t &promised_huge_pages(uint64_t page_size) { return promised_[page_size]; }

  private:
    std::map<uint64_t, int64_t> promised_;
    std::map<std::tuple<std::string, uint32_t, bool>, MappedFile> all_; // path, owner, writes
    std::map<std::pair<std::string, std::set<uint32_t>>, int> directories_;
};

} // namespace cryo::restore
