// SPDX-License-Identifier: Apache-2.0
//
// Records in memory, by their type. The store has room for every type in AllRecords: what collects
// records, writes them or reads them need not be told of a new one.
//
//     FoundRecords found;                       // in the order in which they were added
//     found.add(eventfd);
//     found.each([&](const auto &record) { ... });
//
//     SavedRecords saved;                       // of types that name a key, by that key
//     saved.of<Pipe>().find(file);
#pragma once

#include "image/records.hpp"

#include <concepts>
#include <map>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace cryo::image {

// A type of records of which each has another value in one of its fields.
template <class R>
concept HasKey = requires(const R &record)
{
    {
        record.*R::key
        } -> std::convertible_to<uint32_t>;
};

template <class R>
using InOrder = std::vector<R>;
template <class R>
using ByKey = std::conditional_t<HasKey<R>, std::map<uint32_t, R>, std::vector<R>>;

template <template <class> class Kept, class List>
class RecordStore;

template <template <class> class Kept, class... R>
class RecordStore<Kept, TypeList<R...>>
{
  public:
    template <class T>
    Kept<T> &of()
    {
        return std::get<Kept<T>>(all_);
    }
    template <class T>
    const Kept<T> &of() const
    {
        return std::get<Kept<T>>(all_);
    }
    // A record with the key of another one replaces it.
    template <class T>
    void add(const T &record)
    {
        if constexpr (requires { of<T>().push_back(record); })
            of<T>().push_back(record);
        else
            of<T>()[record.*T::key] = record;
    }
    // Calls visit(record) for every record, one type after the other.
    template <class F>
    void each(F &&visit) const
    {
        (each_of(of<R>(), visit), ...);
    }

  private:
    template <class T, class F>
    static void each_of(const std::vector<T> &records, F &visit)
    {
        for (const T &record : records)
            visit(record);
    }
    template <class T, class F>
    static void each_of(const std::map<uint32_t, T> &records, F &visit)
    {
        for (const auto &[key, record] : records)
            visit(record);
    }

    std::tuple<Kept<R>...> all_;
};

using FoundRecords = RecordStore<InOrder, AllRecords>;
using SavedRecords = RecordStore<ByKey, AllRecords>;

} // namespace cryo::image
