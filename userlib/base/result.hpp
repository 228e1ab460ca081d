// SPDX-License-Identifier: Apache-2.0
//
// Result<T>: a value, or an Error that names the object, the cause and the remedy.
//
//     Result<Fd> f = open_file(path, O_RDONLY);
//     if (!f)
//         return f.error().within("reading the index");
//     use(f->get());
//
// Inside the libraries errors travel as Result; each edge converts once (libcr: errno; commands:
// a message and an exit code).
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace cryo {

// The reason of an error, for callers that must distinguish more than the code does. The text is
// only for people: no code searches it for words.
enum class Reason : uint8_t {
    other,
    no_agent,      // the process was not started under cr_run
    not_enterable, // nor can it be: it is static, or has rights that its user has not
    has_ended,     // the process that was to be saved has ended, and the text says so
};

class Error
{
  public:
    Error(int code, std::string text, Reason reason = Reason::other)
        : code_(code), reason_(reason), text_(std::move(text))
    {}

    // An Error for an errno value: "what: strerror".
    static Error from_errno(std::string_view what, int err);

    int code() const { return code_; } // errno, or a CR_E* number
    Reason reason() const { return reason_; }
    const std::string &text() const { return text_; }

    // A copy of this error, prefixed by the attempted action: "doing: text".
    Error within(std::string_view doing) const;
    // A copy of this error with another text.
    Error with_text(std::string text) const { return {code_, std::move(text), reason_}; }

    // A copy with "(remark)" on a last line of its own, unless that line is there already. A remark
    // contains what may differ each time that the same error happens.
    Error with_remark(std::string_view remark) const;
    // A copy with additional text before the remark.
    Error with_more(std::string_view more) const;
    std::string_view remark() const;
    std::string_view text_without_remark() const;

  private:
    int code_;
    Reason reason_;
    std::string text_;
    size_t remark_ = 0; // bytes at the end of the text, with what is around the remark
};

template <class T>
class [[nodiscard]] Result
{
  public:
    Result(T value) : v_(std::in_place_index<0>, std::move(value)) {}
    Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}

    explicit operator bool() const { return v_.index() == 0; }
    T &operator*() & { return std::get<0>(v_); }
    const T &operator*() const & { return std::get<0>(v_); }
    T &&operator*() && { return std::get<0>(std::move(v_)); }
    T *operator->() { return &std::get<0>(v_); }
    const T *operator->() const { return &std::get<0>(v_); }
    const Error &error() const { return std::get<1>(v_); }

  private:
    std::variant<T, Error> v_;
};

template <>
class [[nodiscard]] Result<void>
{
  public:
    Result() : v_(std::in_place_index<0>) {}
    Result(Error error) : v_(std::in_place_index<1>, std::move(error)) {}

    explicit operator bool() const { return v_.index() == 0; }
    const Error &error() const { return std::get<1>(v_); }

  private:
    std::variant<std::monostate, Error> v_;
};

} // namespace cryo
