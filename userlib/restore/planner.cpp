// SPDX-License-Identifier: Apache-2.0
#include "restore/planner.hpp"

#include "base/path.hpp"
#include "capture/identity.hpp"
#include "restore/plan_parts.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
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

// Where the libraries lie that were mapped, but for the places in which they are looked for anyway.
std::vector<std::string> library_directories(const Saved &saved)
{
    std::vector<std::string> found;
    for (const image::Region &region : saved.regions) {
        const auto file = saved.files.find(region.file);
        if ((region.prot & PROT_EXEC) == 0 || file == saved.files.end() ||
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

// LD_LIBRARY_PATH as the program had it, or as good as that: what is left of it may have been
// written over, and a relative directory in it was one of the place where the program was started.
std::string library_path(const Saved &saved, const std::vector<std::string> &variables)
{
    constexpr std::string_view name = "LD_LIBRARY_PATH=";
    std::string path;
    for (const std::string &variable : variables) {
        if (variable.starts_with(name))
            path = variable.substr(name.size());
    }
    bool is_absolute = true;
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

// What the fresh process begins with: its own program, so that /proc/PID/exe is that. One of which
// the image has every page need not be there any more; what else lies there now, a script perhaps,
// is not run.
std::string program_to_begin_with(Planning &p)
{
    std::string own(p.saved.process.exe);
    const bool needed = std::ranges::any_of(p.saved.regions, [&](const image::Region &region) {
        const auto file = p.saved.files.find(region.file);
        return needs_file(region) && file != p.saved.files.end() && file->second.path == own;
    });
    if (needed || (access(own.c_str(), X_OK) == 0 && capture::is_preloadable(own)))
        return own;
    std::error_code ignored;
    std::string ours = std::filesystem::read_symlink("/proc/self/exe", ignored);
    if (ours.empty())
        return own;
    p.plan.notices.push_back(fmt::format("the program {} is not there any more: /proc/PID/exe of "
                                         "what comes back is {}",
                                         own, ours));
    return ours;
}

void plan_exec(Planning &p)
{
    p.plan.exe = program_to_begin_with(p);
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
    if (const std::string path = library_path(p.saved, variables); !path.empty())
        p.plan.environment.push_back("LD_LIBRARY_PATH=" + path);
}

// The restored program may ask where it came from (cr_get_restart_info).
void tell_source(Planning &p)
{
    constexpr uint32_t first_with_source = 2;
    std::string source = absolute_path(p.image.name());
    if (p.saved.agent.protocol < first_with_source || access(source.c_str(), F_OK) != 0 ||
        source.size() + 8 > sizeof(agent::ResumeInfo::source))
        source.clear();
    source.resize((source.size() / 8 + 1) * 8);
    if (p.saved.agent.protocol < first_with_source)
        return;
    const uint64_t at = p.saved.agent.resume_info + offsetof(agent::ResumeInfo, source);
    for (size_t i = 0; i < source.size(); i += 8) {
        uint64_t word;
        memcpy(&word, &source[i], sizeof(word));
        p.plan.program.add(Do::store, "telling the program its image",
                           {value(at + i), value(word)});
    }
}

// What lives in the process without being saved with it begins anew, in the surroundings that it
// finds here.
void tell_environment(Planning &p)
{
    constexpr uint32_t first_with_environment = 3;
    const int fd = p.plan.floor + environment_fd_offset;
    if (p.saved.agent.protocol >= first_with_environment)
        p.plan.program.add(
            Do::store, "telling the program where the environment is",
            {value(p.saved.agent.resume_info + offsetof(agent::ResumeInfo, environment)),
             value(fd + 1)});
    else
        p.plan.program.call("closing", SYS_close, {value(fd)});
}

// All processes tell that they have come so far, and wait until cr_restart has heard it of all.
void plan_rendezvous(Planning &p, uint32_t word)
{
    Program &program = p.plan.program;
    const char byte = 0;
    program.call_exact(
        "telling how far it is", SYS_write, sizeof(word),
        {value(p.plan.header.status_fd), program.data(&word, sizeof(word)), value(sizeof(word))});
    program.call_exact("waiting for the other processes", SYS_read, sizeof(byte),
                       {value(p.plan.floor + go_fd_offset), program.data(&byte, sizeof(byte)),
                        value(sizeof(byte))});
}

} // namespace

Result<void> plan_process_whole(Planning &p, bool alone)
{
    RestartPlan &plan = p.plan;
    plan.pid = p.options.restore_pid ? p.saved.process.pid : 0;
    plan.personality = p.saved.process.personality;
    plan.cut_realtime = p.saved.process.cut_realtime;
    plan.header.resume_info = p.saved.agent.resume_info;
    plan.header.plan_fd = plan.floor + plan_fd_offset;
    plan.header.status_fd = plan.floor + status_fd_offset;
    plan.header.device_fd = p.options.device >= 0 ? plan.floor + device_fd_offset : -1;
    plan_exec(p);

    using Step = Result<void> (*)(Planning &);
    for (const Step step :
         {Step(check_cpu), Step(check_mapped_files), Step(plan_files), Step(plan_room),
          Step(plan_memory), Step(plan_process), Step(plan_threads), Step(plan_shared_files)}) {
        if (Result<void> done = step(p); !done)
            return done.error().within(p.image.name());
    }
    plan_last_descriptor_work(p);
    if (!alone)
        plan_rendezvous(p, says_ready);
    plan_truncation(p);
    if (Result<void> undone = plan_semaphore_undo(p); !undone)
        return undone.error().within(p.image.name());
    if (!p.saved.undo.empty())
        plan_rendezvous(p, says_undo);
    plan_semaphore_pids(p);
    for (const Step step : {Step(plan_process_signals), Step(plan_timers)}) {
        if (Result<void> done = step(p); !done)
            return done.error().within(p.image.name());
    }
    plan_limits(p);
    if (!p.options.rehearse) { // else its memory is to be what was saved
        tell_source(p);
        tell_environment(p);
    }
    if (!alone)
        plan_rendezvous(p, says_complete);
    plan.program.call("closing", SYS_close, {value(plan.floor + go_fd_offset)});
    plan.program.call("closing", SYS_close, {value(plan.header.plan_fd)});
    if (plan.program.too_many_slots())
        return Error(EMFILE, p.image.name() + ": more open files than a restart can handle");
    return {};
}

} // namespace cryo::restore
