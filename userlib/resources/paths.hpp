// SPDX-License-Identifier: Apache-2.0
//
// Open files that are known by a name in the file system.
//
//     const Kind directory_kind = {.is = is_file<S_IFDIR>, ...};
//     if (!is_named(seen)) ... // removed, renamed, or mounted over
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "resources/seen.hpp"

#include <string>
#include <string_view>

namespace cryo::resources {

// The suffix that the kernel appends to the name of a file that was removed.
inline constexpr std::string_view gone = " (deleted)";

inline bool has_path(const Seen &seen)
{
    return seen.link.starts_with('/');
}

template <mode_t Type>
bool is_file(const Seen &seen)
{
    return has_path(seen) && (seen.status.st_mode & S_IFMT) == Type;
}

// Whether its name still leads to it.
bool is_named(const Seen &seen);
// Looks at many names, of which neighbours are often in the same directory: that one is found once.
class NamesLook
{
  public:
    bool leads_to(const Seen &seen);
    // Looks now for later questions; afterwards `link` must not change any more.
    void learn(Seen &seen) { seen.named = seen.named ? *seen.named : leads_to(seen); }

  private:
    std::string directory_; // empty: none
    Fd opened_;
};

// Goes to the position that an open file had.
Result<void> go_to(int fd, const image::File &file, uint64_t position);

} // namespace cryo::resources
