// SPDX-License-Identifier: Apache-2.0
//
// A process in another pid namespace (cr_restart --pidns makes such) is saved from within: there
// its ids are those that it knows.
//
//     Result<std::optional<int>> left = enter_namespaces(id, scope);
//     if (!left) ...
//     if (*left)
//         return **left;   // a process inside has done it: its exit status
//     // id is now the one in our namespace
#pragma once

#include "base/result.hpp"
#include "image/records_tree.hpp"

#include <optional>
#include <sys/types.h>

cryo::Result<std::optional<int>> enter_namespaces(pid_t &id, cryo::image::Scope scope);
