// SPDX-License-Identifier: Apache-2.0
#include "base/result.hpp"

namespace cryo {

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
    return with_text(std::move(text));
}

} // namespace cryo
