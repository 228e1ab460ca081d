// SPDX-License-Identifier: Apache-2.0
//
// Decides which files may be used. An image is a program, and so is any file that names one:
// it is used only if it belongs to the caller, to root, or to a user whom the caller has
// named, and only if no other user may write it. The file's owner decides, never its
// contents.
//     Trust trust;
//     Result<void> named = trust.add("alice");           // --owner
//     Result<void> good = trust.check(fd, "context.412");
#pragma once

#include "base/result.hpp"
#include "sys/overflow_uid.hpp"

#include <functional>
#include <optional>
#include <string>
#include <sys/stat.h>
#include <sys/types.h>
#include <vector>

namespace cryo {

// The owner that an image names where the true one is unknown.
constexpr uid_t unknown_owner = sys::usual_overflow_uid;
// Whether an owner has this name, or the name that this kernel gives to every owner that a user
// namespace does not show, unless a process outside answers.
bool is_unknown(uid_t owner);

class Trust
{
  public:
    // A user name or a number. ENOENT: there is no such user.
    Result<void> add(const std::string &user);
    const std::vector<std::string> &named() const { return named_; }

    // The caller, root, or a user who was named.
    bool is_owner(uid_t user) const;

    // EACCES: it belongs to another user, or others may write it.
    Result<void> check(int fd, const std::string &path) const;

    // In a user namespace all owners without a number look alike: there `Ask` passes a descriptor
    // of the file to a process outside, and returns nothing if the owner is unknown.
    using Ask = std::function<std::optional<uid_t>(int fd)>;
    void ask(Ask whom);
    // The file's owner, by its id outside of the namespace.
    std::optional<uid_t> owner_of(int fd, const struct stat &status) const;
    // Whether only trusted users can rename files that are made in the directory.
    bool keeps_names(int directory) const;

  private:
    Ask ask_;
    uid_t caller_ = 0; // by the id outside, if one can ask; root where that is not known
    std::vector<std::string> named_;
    std::vector<uid_t> owners_;
};

// For files to write to: EACCES unless the caller owns the file and no other user may write it.
Result<void> check_own(int fd, const std::string &path, const char *way_out);

// "alice (1000)"
std::string user_text(uid_t user);

} // namespace cryo
