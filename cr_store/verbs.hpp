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
