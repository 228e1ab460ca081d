// SPDX-License-Identifier: Apache-2.0
#include "recover/images.hpp"

#include "base/directory.hpp"
#include "base/trust.hpp"

#include <cerrno>
#include <fmt/format.h>

namespace cryo::recover {

Result<Images> Images::take(const std::string &directory, int patience_ms)
{
    Result<keeper::State> state = keeper::State::take(directory, patience_ms);
    if (!state)
        return state.error();
    Images images(keeper::Series(directory), std::make_unique<keeper::State>(std::move(*state)));
    if (Result<void> found = images.find(); !found)
        return found.error();
    return images;
}

Images::~Images()
{
    if (state_)
        state_->give_back(false);
}

Result<void> Images::find()
{
    const Result<keeper::Images> there = series_.still_there(state_->images());
    const Result<std::vector<std::string>> in_order = series_.names();
    if (!there || !in_order)
        return there ? in_order.error() : there.error();
    offer_.made = state_->made();
    for (const std::string &name : *in_order) {
        if (there->contains(name))
            offer_.images.push_back({.name = name, .made = state_->made(name)});
        else
            offer_.has_others = true;
    }
    return {};
}

Result<void> Images::abandon(const std::string &name)
{
    const Result<Directory> directory = Directory::open(series_.directory());
    if (!directory)
        return directory.error();
    // Another one may have come to this name since.
    Result<void> renamed =
        check_own(directory->fd(), series_.directory(), "move the directory back");
    if (!renamed)
        return renamed;
    std::string to = "abandoned." + name;
    renamed = directory->rename(name, to);
    for (int i = 2; !renamed && renamed.error().code() == EEXIST; i++)
        renamed = directory->rename(name, fmt::format("{}.{}", to, i));
    if (!renamed)
        return renamed;
    std::erase_if(offer_.images, [&](const Image &one) { return one.name == name; });
    return series_.point_latest();
}

} // namespace cryo::recover
