// SPDX-License-Identifier: Apache-2.0
//
// The fields of a record as text, through the list that each record type gives of itself.
//
//     for (const Field &f : fields_of(stored))
//         print("{}={}", f.name, f.text);
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "cli/text.hpp"
#include "description.hpp"

namespace cryo::inspect {

using namespace cryo::cli;

struct Field {
    const char *name = nullptr;
    std::string text = {};
    bool empty = false; // zero, or no bytes: not worth a mention
};

template <class E>
concept Named = std::is_enum_v<E> && requires(E e)
{
    image::name_of(e);
};

class FieldPrinter
{
  public:
    explicit FieldPrinter(std::vector<Field> &to) : to_(to) {}

    template <class T>
    void operator()(const char *name, const T &value, image::Show show = image::Show::decimal)
    {
        if constexpr (std::is_same_v<T, bool>)
            to_.push_back({name, value ? "yes" : "no", !value});
        else if constexpr (Named<T>)
            to_.push_back({name, image::name_of(value), false});
        else if constexpr (std::is_integral_v<T>)
            to_.push_back({name, number(value, show), value == 0});
        else if constexpr (std::is_same_v<T, std::string_view>)
            to_.push_back({name, '"' + printable(value) + '"', value.empty()});
        else if constexpr (image::is_list<T>)
            to_.push_back({name, list(value), value.empty()});
        else
            bytes(name, image::Bytes(value));
    }

  private:
    template <std::integral T>
    static std::string number(T value, image::Show show)
    {
        switch (show) {
        case image::Show::hex:
            return fmt::format("{:#x}", value);
        case image::Show::octal:
            return fmt::format("{:#o}", value);
        case image::Show::time:
            return time_text(int64_t(value));
        case image::Show::decimal:
            break;
        }
        return fmt::format("{}", value);
    }
    template <class T>
    static std::string list(const T &values)
    {
        std::string out = "[";
        for (size_t i = 0; i < values.size(); i++)
            out += fmt::format("{}{}", i ? " " : "", values[i]);
        return out + "]";
    }
    void bytes(const char *name, image::Bytes value)
    {
        constexpr size_t kShown = 32;
        std::string text = hex_text(value.first(std::min(value.size(), kShown)));
        if (value.size() > kShown)
            text += fmt::format("… ({} bytes)", value.size());
        to_.push_back({name, text, value.empty()});
    }

    std::vector<Field> &to_;
};

inline std::vector<Field> fields_of(const StoredRecord &stored)
{
    std::vector<Field> out;
    image::with_record_type(stored.type, [&]<class R>() {
        R record;
        if (image::decode(stored.payload, record))
            R::fields(record, FieldPrinter(out));
    });
    return out;
}

} // namespace cryo::inspect
