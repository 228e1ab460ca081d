// SPDX-License-Identifier: Apache-2.0
#include "coord/launch.hpp"

#include "coord/job.hpp"
#include "coord/launcher_words.hpp"
#include "coord/leash.hpp"
#include "coord/place.hpp"
#include "coord/placement.hpp"
#include "sys/own_variable.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <elf.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <unistd.h>

namespace cryo::coord {

namespace {

namespace fs = std::filesystem;

bool is_elf(const fs::path &path)
{
    std::ifstream file(path, std::ios::binary);
    char magic[SELFMAG] = {};
    return file.read(magic, SELFMAG) && memcmp(magic, ELFMAG, SELFMAG) == 0;
}

bool is_open_mpi(const std::string &launcher)
{
    const fs::path path = whole_path(launcher);
    const std::string name = path.filename();
    // mpirun is a program of its own since 5.0; before, and in other families, it is a link or a
    // script.
    return (name == "mpirun" && is_elf(path)) || name == "orterun" || name == "prte" ||
           name == "prterun" || name.ends_with(".openmpi");
}

// Commands that execute their last words unchanged, the launcher among them. A script's words are
// its own, and are left as they are.
bool is_prefix(const std::string &program)
{
    constexpr std::string_view known[] = {"chrt",   "env",     "ionice",  "nice",
                                          "nohup",  "numactl", "setarch", "setsid",
                                          "stdbuf", "taskset", "time",    "timeout"};
    return std::ranges::find(known, fs::path(program).filename().string()) != std::end(known);
}

// Which of the words is the launcher; the first if that is not to be seen.
size_t launcher_among(const std::vector<std::string> &words)
{
    if (is_launcher(words.front()) || !is_prefix(words.front()))
        return 0;
    const auto found = std::ranges::find_if(words, is_launcher);
    return found != words.end() ? static_cast<size_t>(found - words.begin()) : 0;
}

} // namespace

std::string whole_path(const std::string &program)
{
    std::error_code ignored;
    if (program.find('/') != std::string::npos)
        return fs::canonical(program, ignored);
    const char *path = getenv("PATH");
    std::istringstream directories(path != nullptr ? path : "/usr/bin:/bin");
    for (std::string one; std::getline(directories, one, ':');) {
        const fs::path file = fs::path(one) / program;
        if (access(file.c_str(), X_OK) == 0)
            return fs::canonical(file, ignored);
    }
    return program;
}

bool is_launcher(const std::string &program)
{
    const std::string file = fs::path(program).filename();
    const std::string name = file.substr(0, file.find('.'));
    constexpr std::string_view known[] = {"mpirun", "mpiexec", "orterun", "prterun", "srun"};
    return std::find(std::begin(known), std::end(known), name) != std::end(known);
}

bool is_hydra(const std::string &launcher)
{
    return fs::path(whole_path(launcher)).filename() == "mpiexec.hydra";
}

bool is_orterun(const std::string &launcher)
{
    return fs::path(whole_path(launcher)).filename() == "orterun";
}

bool is_srun(const std::string &launcher)
{
    return fs::path(whole_path(launcher)).filename() == "srun";
}

std::vector<std::string> export_options(const std::string &launcher)
{
    std::vector<std::string> options;
    if (!is_open_mpi(launcher))
        return options;
    std::vector<const char *> names(std::begin(exported), std::end(exported));
    if (sys::own_variable("CRYO_CPU") != nullptr) // cr_run has set both
        names.insert(names.end(), std::begin(exported_for_any_cpu), std::end(exported_for_any_cpu));
    for (const char *name : names) {
        if (sys::own_variable(name) != nullptr)
            options.insert(options.end(), {"-x", name});
    }
    return options;
}

void set_variables(const Variables &variables, const std::string &launcher)
{
    unsetenv(fenced_variable); // of another job
    for (const auto &[name, value] : variables)
        setenv(name.c_str(), value.c_str(), 1);
    if (is_hydra(launcher) || is_srun(launcher))
        unsetenv("CRYO_LISTEN");
}

Result<void> make_job(std::vector<std::string> &words, const Supervision &by)
{
    const Result<Variables> variables = start_job(getpid(), by);
    if (!variables)
        return variables.error();
    const size_t at = launcher_among(words);
    set_variables(*variables, words[at]);
    const std::vector<std::string> options = export_options(words[at]);
    words.insert(words.begin() + static_cast<ptrdiff_t>(at) + 1, options.begin(), options.end());
    return {};
}

} // namespace cryo::coord
