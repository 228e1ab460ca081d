// SPDX-License-Identifier: Apache-2.0
#include "keeper/series.hpp"

#include "image/base_finder.hpp"
#include "image/needed_files.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace cryo::keeper {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view prefix = "context.";
constexpr size_t digits = 6;
constexpr uint64_t most_number = 1'000'000'000'000; // leaves room for the next number

// The number in an image's name; 0: it is no such name.
uint64_t number_of(const std::string &name)
{
    if (!name.starts_with(prefix) || name.size() < prefix.size() + digits)
        return 0;
    uint64_t number = 0;
    const char *end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + prefix.size(), end, number);
    return error == std::errc() && stop == end && number <= most_number ? number : 0;
}

// The pid in a name that temporary() has made; 0: it is no such name.
pid_t maker_of(const std::string &name)
{
    const size_t dot = name.rfind('.');
    if (!name.starts_with('.') || dot == 0)
        return 0;
    const std::string of = name.substr(1, dot - 1);
    pid_t pid = 0;
    const char *end = name.data() + name.size();
    const auto [stop, error] = std::from_chars(name.data() + dot + 1, end, pid);
    const bool ours = of == latest_name || number_of(of) != 0;
    return ours && error == std::errc() && stop == end ? pid : 0;
}

// A zombie counts as ended, as its parent may never reap it.
bool has_ended(pid_t pid)
{
    std::ifstream file(fmt::format("/proc/{}/stat", pid));
    std::string text;
    std::getline(file, text);
    const size_t name_end = text.rfind(") ");
    const char state = name_end == std::string::npos ? ' ' : text[name_end + 2];
    return state == 'Z' || state == 'X' || (kill(pid, 0) != 0 && errno == ESRCH);
}

} // namespace

bool Series::is_image_name(const std::string &name)
{
    return number_of(name) != 0;
}

bool Series::comes_before(const std::string &one, const std::string &other)
{
    return number_of(one) < number_of(other);
}

std::string Series::after(const std::string &name)
{
    return fmt::format("{}{:0{}}", prefix, number_of(name) + 1, digits);
}

Result<std::vector<std::string>> Series::names() const
{
    const Result<Directory> directory = Directory::open(directory_);
    if (!directory)
        return directory.error();
    const Result<std::vector<std::string>> entries = directory->names();
    if (!entries)
        return entries.error();
    std::vector<std::pair<uint64_t, std::string>> found;
    for (const std::string &name : *entries) {
        if (const uint64_t number = number_of(name); number != 0)
            found.emplace_back(number, name);
    }
    std::sort(found.begin(), found.end());
    std::vector<std::string> names;
    names.reserve(found.size());
    for (auto &[number, name] : found)
        names.push_back(std::move(name));
    return names;
}

Result<std::string> Series::newest() const
{
    const Result<std::vector<std::string>> all = names();
    if (!all)
        return all.error();
    return all->empty() ? std::string() : all->back();
}

Result<std::string> Series::next() const
{
    Result<std::string> last = newest();
    if (!last)
        return last;
    return after(*last);
}

Result<std::string> Series::id_of(const std::string &name) const
{
    const Result<Directory> directory = Directory::open(directory_);
    if (!directory)
        return directory.error();
    const Result<std::optional<image::Digest>> id = image::look_for_id(*directory, name);
    if (!id)
        return id.error();
    return id->has_value() ? (*id)->hex() : std::string();
}

// Makes a hard link, as cr_restart follows no symbolic one. rename() leaves both names in place if
// they are the same file already.
Result<void> Series::point_latest() const
{
    const Result<std::string> last = newest();
    if (!last)
        return last.error();
    const Result<std::string> before = id_of(latest_name);
    if (!before && before.error().code() != ENOENT)
        return before.error();
    if (before && before->empty())
        return Error(EEXIST, path(latest_name) + ": is no image, and is not replaced by one; give "
                                                 "it another name");
    const std::string made = temporary(latest_name);
    unlink(made.c_str());
    if (link(path(*last).c_str(), made.c_str()) != 0)
        return Error::from_errno(path(latest_name), errno);
    if (rename(made.c_str(), path(latest_name).c_str()) != 0) {
        const Error error = Error::from_errno(path(latest_name), errno);
        unlink(made.c_str());
        return error;
    }
    unlink(made.c_str());
    return {};
}

Result<std::vector<std::string>> Series::needed(const std::string &name) const
{
    image::BaseFinder finder;
    Result<std::unique_ptr<image::Snapshot>> snapshot =
        image::Snapshot::open(path(name), {.find_base = finder.beside(path(name))});
    if (!snapshot)
        return snapshot.error();
    image::NeededFiles needs = image::needed_files(**snapshot);
    if (needs.broken)
        return *needs.broken;
    std::set<image::FileId> files(needs.files.begin(), needs.files.end());
    struct stat status;
    if (stat(path(name).c_str(), &status) == 0)
        files.emplace(status.st_dev, status.st_ino);
    Result<std::vector<std::string>> all = names();
    if (!all)
        return all;
    std::vector<std::string> found;
    for (const std::string &one : *all) {
        if (stat(path(one).c_str(), &status) != 0)
            return Error::from_errno(path(one), errno);
        if (files.contains(image::FileId(status.st_dev, status.st_ino)))
            found.push_back(one);
    }
    return found;
}

Result<Images> Series::still_there(const Images &images) const
{
    const Result<Directory> directory = Directory::open(directory_);
    if (!directory) // a missing directory says nothing about its images
        return directory.error();
    Images there;
    for (const auto &[name, id] : images) {
        const Result<std::optional<image::Digest>> found = image::look_for_id(*directory, name);
        if (!found && found.error().code() != ENOENT)
            return found.error();
        if (found && found->has_value() && (*found)->hex() == id)
            there.emplace(name, id);
    }
    return there;
}

Result<Images> Series::all() const
{
    const Result<std::vector<std::string>> there = names();
    if (!there)
        return there.error();
    Images images;
    for (const std::string &name : *there) {
        const Result<std::string> id = id_of(name);
        if (!id)
            return id.error();
        if (!id->empty())
            images.emplace(name, *id);
    }
    return images;
}

Result<void> Series::prune(unsigned keep, Images &images, const std::set<std::string> &in_use) const
{
    const Result<Images> there = still_there(images);
    if (!there)
        return there.error().within("nothing is removed");
    images = *there;
    std::vector<std::string> ours;
    for (const auto &[name, id] : images)
        ours.push_back(name);
    std::ranges::sort(ours, {}, number_of);
    if (ours.size() <= keep)
        return {};
    std::set<std::string> stay = in_use;
    for (size_t i = ours.size() - keep; i < ours.size(); i++) {
        const Result<std::vector<std::string>> needs = needed(ours[i]);
        if (!needs)
            return needs.error().within("nothing is removed");
        stay.insert(needs->begin(), needs->end());
    }
    for (const std::string &name : ours) {
        if (stay.contains(name))
            continue;
        if (unlink(path(name).c_str()) != 0 && errno != ENOENT)
            return Error::from_errno(path(name), errno);
        images.erase(name);
    }
    return {};
}

std::string Series::temporary(const std::string &name) const
{
    return fmt::format("{}/.{}.{}", directory_, name, getpid());
}

void Series::remove_abandoned() const
{
    std::error_code error;
    for (fs::directory_iterator at(directory_, error), end; !error && at != end;
         at.increment(error)) {
        const pid_t maker = maker_of(at->path().filename());
        struct stat status = {};
        if (maker > 0 && has_ended(maker) && lstat(at->path().c_str(), &status) == 0 &&
            S_ISREG(status.st_mode) && status.st_uid == geteuid())
            unlink(at->path().c_str());
    }
}

} // namespace cryo::keeper
