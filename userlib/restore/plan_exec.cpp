// SPDX-License-Identifier: Apache-2.0
// What the fresh process executes, and what its dynamic linker needs to know.
#include "base/asan.hpp"
#include "look/identity.hpp"
#include "restore/mapped_files.hpp"
#include "restore/plan_parts.hpp"
#include "restore/trusted_path.hpp"

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fmt/format.h>
#include <set>
#include <sys/mman.h>
#include <unistd.h>

namespace cryo::restore {

namespace {

// The strings in a block of NUL-ended ones.
std::vector<std::string> split(const std::string &block)
{
    std::vector<std::string> parts;
    for (size_t at = 0; at < block.size();) {
        parts.emplace_back(block.c_str() + at);
        at += parts.back().size() + 1;
    }
    return parts;
}

// Programs that show a title write it over their arguments and their environment (setproctitle).
bool is_environment(const std::vector<std::string> &variables)
{
    return std::ranges::all_of(variables, [](const std::string &variable) {
        const size_t name = variable.find('=');
        return name != 0 && name != std::string::npos;
    });
}

// Directories of the mapped libraries, except those that are searched anyway.
std::vector<std::string> library_directories(const Saved &saved)
{
    std::vector<std::string> found;
    for (const image::Region &region : saved.regions()) {
        const auto file = saved.files().find(region.file);
        if ((region.prot & PROT_EXEC) == 0 || file == saved.files().end() ||
            file->second.path == saved.process.exe)
            continue;
        std::string directory = std::filesystem::path(file->second.path).parent_path();
        const bool is_standard = directory == "/lib" || directory == "/usr/lib" ||
                                 directory == "/lib64" || directory == "/lib/x86_64-linux-gnu" ||
                                 directory == "/usr/lib/x86_64-linux-gnu";
        if (!is_standard && std::ranges::find(found, directory) == found.end())
            found.push_back(std::move(directory));
    }
    return found;
}

// LD_LIBRARY_PATH as the program had it, or a substitute: it may have been overwritten, and
// a relative directory in it referred to the directory that the program was started in.
std::string library_path(const Saved &saved, const std::vector<std::string> &variables)
{
    constexpr std::string_view name = "LD_LIBRARY_PATH=";
    std::string path;
    for (const std::string &variable : variables) {
        if (variable.starts_with(name))
            path = variable.substr(name.size());
    }
    bool is_absolute =
        path.find('$') == std::string::npos; // the dynamic linker expands $ORIGIN and others
    for (size_t at = 0; at < path.size(); at = path.find_first_of(":;", at) + 1) {
        is_absolute = is_absolute && path[at] == '/';
        if (path.find_first_of(":;", at) == std::string::npos)
            break;
    }
    if (is_environment(variables) && is_absolute)
        return path;
    for (const std::string &directory : library_directories(saved))
        path += (path.empty() ? "" : ":") + directory;
    return path;
}

// Equals no owner: only the caller, root, and users named with --owner are trusted.
constexpr uint32_t nobody_in_particular = ~0U;

// The files whose code was mapped in the program.
std::vector<const image::File *> files_with_code(const Saved &saved)
{
    std::vector<const image::File *> found;
    for (const image::Region &region : saved.regions()) {
        const auto file = saved.files().find(region.file);
        if ((region.prot & PROT_EXEC) != 0 && file != saved.files().end() &&
            std::ranges::find(found, &file->second) == found.end())
            found.push_back(&file->second);
    }
    return found;
}

// The dynamic linker searches these directories before anything in them can be
// checked. Another user may have made such a directory since the checkpoint: it is
// left out. Owners of code that the program had mapped may own them, and links to
// them. The dynamic linker gets descriptors, so that none is exchanged meanwhile.
Result<std::string> trusted_part(Planning &p, const std::string &path)
{
    if (path.empty())
        return path;
    std::set<uint32_t> owners = {nobody_in_particular};
    for (const image::File *file : files_with_code(p.saved))
        owners.insert(file->uid);
    std::string good;
    for (size_t at = 0; at < path.size();) {
        const size_t end = std::min(path.find_first_of(":;", at), path.size());
        const std::string name = path.substr(at, end - at);
        at = end + 1;
        if (!name.starts_with('/'))
            continue; // relative to a directory that is not known any more
        const Result<int> found = p.mapped->directory(p, name, owners);
        if (found)
            good += fmt::format("{}/proc/self/fd/{}", good.empty() ? "" : ":", *found);
        else if (found.error().code() == EMFILE)
            return found.error();
        else if (found.error().code() == EPERM)
            p.plan.notices.push_back("a directory of the library path is not used: " +
                                     found.error().text());
    }
    return good;
}

// The record of a file that was mapped, by its name.
const image::File *mapped_file(const Saved &saved, std::string_view path)
{
    for (const image::Region &region : saved.regions()) {
        const auto file = saved.files().find(region.file);
        if (file != saved.files().end() && file->second.path == path)
            return &file->second;
    }
    return nullptr;
}

// The program, as a descriptor that the process inherits. ENOEXEC: another file is there now,
// perhaps a script. If the image has every page, its libraries are not checked yet, which the
// dynamic linker takes from where the program says: each must exist, with a trusted owner.
Result<int> open_program(Planning &p)
{
    const std::string &own = p.plan.exe;
    const image::File *known = mapped_file(p.saved, own);
    if (known != nullptr && p.mapped_fds.contains(known->id))
        return p.mapped_fds.at(known->id);
    for (const image::File *file : files_with_code(p.saved)) {
        if (file == known || file->kind != image::FileKind::regular)
            continue;
        if (const Result<Found> found = find_trusted(p.options, *file); !found)
            return Error(found.error().code(), "its library " + found.error().text());
    }
    image::File file;
    file.path = own;
    file.uid = known != nullptr ? known->uid : nobody_in_particular;
    const Result<MappedFile *> found = p.mapped->find(p, file, false);
    if (!found)
        return found.error();
    const std::string path = fmt::format("/proc/self/fd/{}", (*found)->fd);
    if (access(path.c_str(), X_OK) != 0 || !capture::is_preloadable(path))
        return Error(ENOEXEC, own + ": no program that can be started with a library preloaded");
    return (*found)->fd;
}

// What the fresh process executes: its own program, so that /proc/PID/exe is
// that. A program of which the image has every page need not exist any more.
Result<void> choose_program(Planning &p)
{
    constexpr int gone[] = {EPERM, ENOENT, ENOTDIR, EACCES, ELOOP, ENOEXEC};
    p.plan.exe = p.saved.process.exe;
    const Result<int> own = open_program(p);
    if (own) {
        p.plan.exe_fd = *own;
        return {};
    }
    std::error_code ignored;
    std::string ours = std::filesystem::read_symlink("/proc/self/exe", ignored);
    if (ours.empty() || std::ranges::find(gone, own.error().code()) == std::end(gone))
        return own.error();
    p.plan.notices.push_back(fmt::format(
        "the program {} is not executed: /proc/PID/exe of the restored process is {} ({})",
        p.plan.exe, ours, own.error().text()));
    p.plan.exe = std::move(ours);
    return {};
}

} // namespace

Result<void> plan_exec(Planning &p)
{
    if (Result<void> chosen = choose_program(p); !chosen)
        return chosen;
    p.plan.arguments = split(p.saved.arguments);
    if (p.plan.arguments.empty())
        p.plan.arguments.push_back(p.plan.exe);
    // The restored program has its own environment, in its memory. The fresh one needs what its
    // dynamic linker would look at, to start at all.
    const std::vector<std::string> variables = split(p.saved.environment);
    for (const std::string &variable : variables) {
        if (variable.starts_with("GLIBC_TUNABLES="))
            p.plan.environment.push_back(variable);
    }
    if (std::ranges::any_of(files_with_code(p.saved),
                            [](const image::File *file) { return is_asan(file->path); }))
        p.plan.environment.push_back("ASAN_OPTIONS=" + std::string(asan_unordered));
    const Result<std::string> path = trusted_part(p, library_path(p.saved, variables));
    if (!path)
        return path.error();
    if (!path->empty())
        p.plan.environment.push_back("LD_LIBRARY_PATH=" + *path);
    return {};
}

} // namespace cryo::restore
