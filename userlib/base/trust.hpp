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

#include <functional>
#include <optional>
#include <string>
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

    // In a user namespace of one's own all other owners look alike: there somebody outside is
    // asked, with a descriptor of the file, and says nothing if it cannot.
    using Ask = std::function<std::optional<uid_t>(int fd)>;
    void ask(Ask whom) { ask_ = std::move(whom); }
    // Whose the file is, as it is called outside.
    std::optional<uid_t> owner_of(int fd, const struct stat &status) const;

  private:
    Ask ask_;
    std::vector<std::string> named_;
    std::vector<uid_t> owners_;
};

// For what is written to: EACCES unless it belongs to the caller and nobody else may write it.
Result<void> check_own(int fd, const std::string &path, const char *way_out);

// "alice (1000)"
std::string user_text(uid_t user);

} // namespace cryo
