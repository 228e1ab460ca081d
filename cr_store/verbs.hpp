// SPDX-License-Identifier: Apache-2.0
//
// Commands of cr_store that have a file of their own. Each prints its result, and returns what went
// wrong.
#pragma once

#include "options.hpp"
#include "store/client.hpp"

namespace cryo::storing {

Result<void> list(Options &options, const store::Settings &settings, const store::Location &place);
Result<void> remove(Options &options, const store::Settings &settings,
                    const store::Location &place);

// The last that was put below the place above, if the place's own name is "latest". ENOENT: there
// is none.
Result<store::Location> last_of_series(store::Client &client, const store::Location &place);

inline store::Terms terms_of(const Options &options)
{
    return {.patience = std::chrono::seconds(options.patience)};
}

// What lies below a place, and nothing whose name only begins like it.
inline store::Location below(const store::Location &place)
{
    return {place.bucket, place.key.empty() ? "" : place.key + "/"};
}

} // namespace cryo::storing
