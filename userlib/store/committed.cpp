// SPDX-License-Identifier: Apache-2.0
// The manifest of a place in an object store.
#include "store/client.hpp"
#include "store/manifest.hpp"

namespace cryo::store {

Result<Manifest> Manifest::read(Client &client, const Location &place)
{
    const Location at = place.within(manifest_name);
    const Result<std::string> text = client.read(at, largest_manifest);
    if (!text)
        return text.error();
    Result<Manifest> made = parse(*text);
    return made ? std::move(made) : made.error().within(place.text());
}

} // namespace cryo::store
