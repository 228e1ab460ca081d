// SPDX-License-Identifier: Apache-2.0
#include "mpi_family.hpp"

#include "coord/launch.hpp"
#include "mpi/stock/family.hpp"
#include "needed.hpp"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string_view>
#include <vector>

namespace {

bool begins_with_one_of(const std::string &name, const std::vector<std::string_view> &beginnings)
{
    return std::any_of(beginnings.begin(), beginnings.end(), [&](std::string_view beginning) {
        return name.compare(0, beginning.size(), beginning) == 0;
    });
}

constexpr const char *for_open_mpi = "cryo/libcryo_openmpi.so";
constexpr const char *for_mpich = "cryo/libcryo_mpich.so";
constexpr const char *none = ""; // none, whatever other rules say

// Chosen by the libraries that a program's file names; null: they do not decide it.
const char *needed_by(const std::string &path)
{
    for (const std::string &name : needed_libraries(path)) {
        if (cryo::mpi::is_of(cryo::mpi::Family::open_mpi, name.c_str()) ||
            begins_with_one_of(name, {"libopen-rte.so.40", "libprrte.so"})) // of its launchers
            return for_open_mpi;
        if (name == "libpmix.so.2" && cryo::coord::is_launcher(path))
            return for_open_mpi; // mpirun of 5.0, which becomes prterun
        if (cryo::mpi::is_of(cryo::mpi::Family::mpich, name.c_str()))
            return for_mpich;
        if (begins_with_one_of(name, {"libmpi.so.12", "libmpifort.so.12"}))
            return none; // MPICH by names that its library here does not have
    }
    return nullptr;
}

const char *started_by_slurm(const std::vector<std::string> &words)
{
    const char *type = getenv("SLURM_MPI_TYPE");
    bool pmix = type != nullptr && std::string_view(type).starts_with("pmix");
    for (size_t i = 1; i < words.size(); i++) {
        if (words[i].starts_with("-")) {
            const bool apart = words[i] == "--mpi" && i + 1 < words.size();
            pmix = pmix || words[i].starts_with("--mpi=pmix") ||
                   (apart && words[i + 1].starts_with("pmix"));
        } else if (const char *found = needed_by(cryo::coord::whole_path(words[i]));
                   found != nullptr) {
            return found;
        }
    }
    return pmix ? for_open_mpi : nullptr;
}

// A launcher, by its file or its name; srun's further words count, too.
const char *for_launcher(const std::vector<std::string> &words)
{
    const std::string path = cryo::coord::whole_path(words.front());
    if (const char *found = needed_by(path); found != nullptr)
        return found;
    if (cryo::coord::is_hydra(path))
        return for_mpich;
    return cryo::coord::is_srun(path) ? started_by_slurm(words) : nullptr;
}

// The text of a script, or "": none. Data files among a program's words may be large, so they are
// not read.
std::string text_of_script(const std::string &path)
{
    constexpr size_t most = 1 << 16;
    std::error_code ignored;
    if (!std::filesystem::is_regular_file(path, ignored))
        return {};
    std::ifstream in(path, std::ios::binary);
    std::string text(2, '\0');
    if (!in.read(text.data(), 2) || text != "#!")
        return {};
    text.resize(most);
    in.read(text.data() + 2, static_cast<std::streamsize>(most - 2));
    text.resize(2 + static_cast<size_t>(in.gcount()));
    return text;
}

// Roughly the words of a text that a shell may execute: those between blanks, quotes and operators.
void add_words_of(const std::string &text, std::vector<std::string> &words)
{
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        constexpr const char *between = " \t\r;&|()'\"`";
        const size_t begin = line.find_first_not_of(" \t");
        if (begin == std::string::npos || line[begin] == '#')
            continue;
        for (size_t at = 0; (at = line.find_first_not_of(between, at)) != std::string::npos;) {
            const size_t end = std::min(line.find_first_of(between, at), line.size());
            words.push_back(line.substr(at, end - at));
            at = end;
        }
    }
}

const char *needed_by_one_of(const std::vector<std::string> &words)
{
    std::set<std::string> seen;
    for (const std::string &word : words) {
        if (cryo::coord::is_launcher(word) || !seen.insert(word).second)
            continue;
        if (const char *found = needed_by(cryo::coord::whole_path(word)); found != nullptr)
            return found;
    }
    return nullptr;
}

// Then what comes behind it need not be found where our PATH leads.
bool may_change_path(const std::string &word)
{
    constexpr std::string_view known[] = {".", "conda", "eval", "ml", "module", "source", "spack"};
    return word.starts_with("PATH=") ||
           std::find(std::begin(known), std::end(known), word) != std::end(known);
}

const char *for_launcher_among(const std::vector<std::string> &words, bool by_path_only)
{
    for (auto at = words.begin();
         (at = std::find_if(at, words.end(), cryo::coord::is_launcher)) != words.end(); at++) {
        if (!at->starts_with('/') &&
            (by_path_only || std::any_of(words.begin(), at, may_change_path)))
            continue;
        if (const char *found = for_launcher({at, words.end()}); found != nullptr)
            return found;
    }
    return nullptr;
}

// The job's launcher is not the program itself: a script or a command such as env starts it. What
// the ranks' program needs decides, since launchers of several MPIs have the same name. A script
// may change the PATH (`module load`), so it names a launcher only by its whole path; and so does
// a command that changes it before. Nothing is guessed: the functions of another MPI in front of
// the ranks' own would crash them.
const char *started_within(const std::vector<std::string> &words)
{
    std::vector<std::string> said;
    std::vector<std::string> in_scripts;
    for (const std::string &word : words) {
        add_words_of(word, said);
        add_words_of(text_of_script(cryo::coord::whole_path(word)), in_scripts);
    }
    for (const std::vector<std::string> *all : {&said, &in_scripts}) {
        if (const char *found = needed_by_one_of(*all); found != nullptr)
            return found;
    }
    const char *found = for_launcher_among(said, false);
    return found != nullptr ? found : for_launcher_among(in_scripts, true);
}

const char *found_for(const std::vector<std::string> &words, bool is_job)
{
    const char *found = for_launcher(words);
    if (found == nullptr && is_job && !cryo::coord::is_srun(words.front()))
        found = started_within(words);
    if (found != nullptr || cryo::coord::is_srun(words.front()))
        return found;
    if (getenv("OMPI_COMM_WORLD_SIZE") != nullptr)
        return for_open_mpi;
    return getenv("HYDI_CONTROL_FD") != nullptr ? for_mpich : nullptr;
}

} // namespace

const char *stand_in_for(const std::vector<std::string> &words, bool is_job)
{
    const char *found = found_for(words, is_job);
    return found == none ? nullptr : found;
}
