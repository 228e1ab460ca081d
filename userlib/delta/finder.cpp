// SPDX-License-Identifier: Apache-2.0
#include "delta/finder.hpp"

#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace cryo::delta {

using namespace cryo::image;

namespace {

Result<std::shared_ptr<Image>> shared(Result<std::unique_ptr<Image>> image)
{
    if (!image)
        return image.error();
    return std::shared_ptr<Image>(std::move(*image));
}

// A file in the directory that holds the image; "" if none does.
std::string look_in(const std::filesystem::path &directory, const Digest &id)
{
    std::error_code error;
    for (const auto &file :
         std::filesystem::directory_iterator(directory.empty() ? "." : directory, error))
        if (file.is_regular_file(error) && id_of_file(file.path()) == id)
            return file.path();
    return "";
}

Result<std::shared_ptr<Image>> find(const State *state, const std::vector<std::string> &named,
                                    const std::string &beside, const Digest &id)
{
    const Entry *entry = state ? state->by_id(id) : nullptr;
    if (entry && id_of_file(entry->path) == id)
        return shared(Image::open(entry->path));
    for (const std::string &path : named)
        if (id_of_file(path) == id)
            return shared(Image::open(path));
    if (std::string path = look_in(std::filesystem::path(beside).parent_path(), id); !path.empty())
        return shared(Image::open(path));
    if (!entry)
        return Error(ENOENT, "not found beside it; name its file with --base");
    std::string what = fmt::format("version {}, {}", entry->number, entry->path);
    if (access(entry->path.c_str(), F_OK))
        return Error::from_errno(what, errno)
            .within("it is gone, put it back or name a copy with --base");
    return Error(EBADMSG, what + ": is damaged or another file now; name a good copy with --base");
}

} // namespace

FindBase Finder::beside(const std::string &path) const
{
    return [state = state, named = named, path](const Digest &id) {
        return find(state, named, path, id);
    };
}

Result<std::unique_ptr<Version>> Finder::open(const std::string &path) const
{
    return Version::open(path, beside(path));
}

Result<std::unique_ptr<Version>> Finder::open_whole(const std::string &path) const
{
    auto version = open(path);
    if (!version)
        return version;
    if (auto chain = (*version)->check_chain(); !chain)
        return chain.error();
    return version;
}

} // namespace cryo::delta
