// SPDX-License-Identifier: Apache-2.0
//
// Whose files are used. An image is a program, and so is all that names one: it is used only when
// it belongs to the caller or to root, or to a user whom the caller has named; and only where
// nobody else may have written it. The owner of the file decides, never what stands in it.
//
//     Trust trust;
//     Result<void> named = trust.add("alice");           // --owner
//     Result<void> good = trust.check(fd, "context.412");
#pragma once

#include "base/result.hpp"

#include <string>
#include <string_view>
#include <sys/stat.h>
#include <sys/types.h>
#include <vector>

namespace cryo {

class Trust
{
  public:
    // A name, or a number. ENOENT: there is no such user.
    Result<void> add(const std::string &user);
    const std::vector<std::string> &named() const { return named_; }

    // The caller, root, or one who was named.
    bool is_owner(uid_t user) const;

    // EACCES: it is somebody else's, or others may write it.
    Result<void> check(int fd, const std::string &path) const;

    // What was found good, for a process that sees other owners: in a user namespace those that are
    // not mapped are all alike.
    std::string accepted() const;
    void accept(std::string_view accepted);

  private:
    struct File {
        dev_t device = 0;
        ino_t number = 0;
        bool operator==(const File &) const = default;
    };
    mutable std::vector<File> accepted_;
    std::vector<std::string> named_;
    std::vector<uid_t> owners_;
};

// For what is written to: EACCES unless it belongs to the caller and nobody else may write it.
Result<void> check_own(int fd, const std::string &path, const char *way_out);

// "alice (1000)"
std::string user_text(uid_t user);

} // namespace cryo
