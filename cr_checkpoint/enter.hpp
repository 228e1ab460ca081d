// SPDX-License-Identifier: Apache-2.0
//
// A process in another pid namespace (cr_restart --pidns makes such) is saved from within: there
// its ids are those that it knows.
//
//     Fd teller;
//     Result<std::optional<int>> left = enter_namespaces(id, scope, teller);
//     if (!left) ...
//     if (*left)
//         return **left;   // a process inside has done it: its exit status
//     // id is now the one in our namespace; in a user namespace, `teller` knows whose a file is
#pragma once

#include "base/fd.hpp"
#include "base/result.hpp"
#include "image/records_tree.hpp"

#include <optional>
#include <sys/types.h>

cryo::Result<std::optional<int>> enter_namespaces(pid_t &id, cryo::image::Scope scope,
                                                  cryo::Fd &teller);
