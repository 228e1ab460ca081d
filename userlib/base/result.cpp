// SPDX-License-Identifier: Apache-2.0
#include "base/result.hpp"

namespace cryo {

namespace {

constexpr std::string_view before_remark = "\n  (", behind_remark = ")";

} // namespace

Error Error::from_errno(std::string_view what, int err)
{
    std::string text(what);
    text += ": ";
    text += strerror(err);
    return Error(err, std::move(text));
}

Error Error::within(std::string_view doing) const
{
    std::string text(doing);
    text += ": ";
    text += text_;
    Error error = with_text(std::move(text));
    error.remark_ = remark_;
    return error;
}

Error Error::with_remark(std::string_view remark) const
{
    std::string end(before_remark);
    end += remark;
    end += behind_remark;
    Error error = with_text(text_.ends_with(end) ? text_ : text_ + end);
    error.remark_ = end.size();
    return error;
}

Error Error::with_more(std::string_view more) const
{
    std::string text(text_without_remark());
    text += more;
    Error error = with_text(std::move(text));
    return remark_ == 0 ? error : error.with_remark(remark());
}

std::string_view Error::remark() const
{
    if (remark_ == 0)
        return {};
    std::string_view end = std::string_view(text_).substr(text_.size() - remark_);
    end.remove_prefix(before_remark.size());
    end.remove_suffix(behind_remark.size());
    return end;
}

std::string_view Error::text_without_remark() const
{
    return std::string_view(text_).substr(0, text_.size() - remark_);
}

} // namespace cryo
