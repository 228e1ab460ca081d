// SPDX-License-Identifier: Apache-2.0
//
// Keeps the strings and lists that records refer to.
//
//     Strings strings; // must live as long as the records
//     record.path = strings.keep(path);
//     record.groups = strings.keep_list(groups);
#pragma once

#include "image/records.hpp"

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cryo::capture {

class Strings
{
  public:
    std::string_view keep(std::string text) { return kept_.emplace_back(std::move(text)); }
    template <class T>
    image::List<T> keep_list(const std::vector<T> &list)
    {
        return image::List<T>::of(lists<T>().emplace_back(list));
    }

  private:
    template <class T>
    auto &lists()
    {
        if constexpr (sizeof(T) == 4)
            return lists32_;
        else
            return lists64_;
    }

    std::deque<std::string> kept_;
    std::deque<std::vector<uint32_t>> lists32_;
    std::deque<std::vector<uint64_t>> lists64_;
};

} // namespace cryo::capture
