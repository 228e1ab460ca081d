// SPDX-License-Identifier: Apache-2.0
#include "verbs.hpp"

#include "cli/text.hpp"
#include "store/removal.hpp"

namespace cryo::storing {

// Another command that has this one do it ends it at once when it has told its result.
Result<void> remove(Options &options, const store::Settings &settings, const store::Location &place)
{
    const Result<store::Removed> removed = store::remove_place(place, settings, terms_of(options));
    if (!removed)
        return removed.error();
    options.talk.result(
        fmt::format("{}: removed {}", place.text(), cli::size_text(removed->bytes)),
        {{"place", place.text()}, {"objects", removed->objects}, {"bytes", removed->bytes}});
    return {};
}

} // namespace cryo::storing
