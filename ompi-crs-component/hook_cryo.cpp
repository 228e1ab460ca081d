// SPDX-License-Identifier: Apache-2.0
// mca_hook_cryo.so: at the end of MPI_Init, in the rank, says whether Cryo covers it, and what in
// the job's settings would make a checkpoint or a restart impossible. The settings are read by
// cr_run and ompi-checkpoint (userlib/coord/parameters.hpp); registered here, they show in
// ompi_info and are parameters like any other.
#include <ompi_config.h>

#include <ompi/constants.h>
#include <ompi/mca/hook/hook.h>
#include <opal/mca/base/mca_base_var.h>
#include <opal/util/output.h>

#include "sys/own_variable.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <sys/stat.h>
#include <unistd.h>
#include <vector>

namespace {

const char *directory;
const char *interval;
const char *backend;
const char *local;
const char *redundancy;
int keep;
int verbose;

int register_parameters();
void after_init(int argc, char **argv, int requested, int *provided);

} // namespace

extern "C" {
// Open MPI looks up this name when it has found the file.
OMPI_MODULE_DECLSPEC extern ompi_hook_base_component_t mca_hook_cryo_component;
ompi_hook_base_component_t mca_hook_cryo_component = {
    .hookm_version =
        {
            OMPI_HOOK_BASE_VERSION_1_0_0,
            .mca_component_name = "cryo",
            MCA_BASE_MAKE_VERSION(component, CRYO_VERSION_MAJOR, CRYO_VERSION_MINOR,
                                  CRYO_VERSION_PATCH),
            .mca_register_component_params = register_parameters,
        },
    .hookm_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .hookm_mpi_init_bottom = after_init,
};
}

namespace {

void register_one(const char *name, const char *help, mca_base_var_type_t type, void *storage)
{
    mca_base_component_var_register(&mca_hook_cryo_component.hookm_version, name, help, type,
                                    nullptr, 0, mca_base_var_flag_t{}, OPAL_INFO_LVL_3,
                                    MCA_BASE_VAR_SCOPE_READONLY, storage);
}

int register_parameters()
{
    register_one("directory", "Where snapshots of this job go, unless ompi-checkpoint says so",
                 MCA_BASE_VAR_TYPE_STRING, &directory);
    register_one("interval", "Save the job every so often, as cr_run --interval: 60s, 5m, auto",
                 MCA_BASE_VAR_TYPE_STRING, &interval);
    register_one("backend", "What saves the ranks, as cr_checkpoint --backend",
                 MCA_BASE_VAR_TYPE_STRING, &backend);
    register_one("keep", "Of snapshots that the program itself asks for only the last N remain",
                 MCA_BASE_VAR_TYPE_INT, &keep);
    register_one("local", "Directory of each node for images, as ompi-checkpoint --local",
                 MCA_BASE_VAR_TYPE_STRING, &local);
    register_one("redundancy",
                 "What nodes keep of each other's images there, as ompi-checkpoint --redundancy",
                 MCA_BASE_VAR_TYPE_STRING, &redundancy);
    register_one("verbose",
                 "0: only what is wrong is told, by rank 0; 1: every rank that is covered",
                 MCA_BASE_VAR_TYPE_INT, &verbose);
    return OMPI_SUCCESS;
}

bool is_set(const char *value)
{
    return value != nullptr && *value != 0;
}

std::string variable(const char *name)
{
    const char *value = cryo::sys::own_variable(name);
    return value != nullptr ? value : "";
}

// The nearest existing ancestor of a path that may still have to be made.
std::string existing(std::string path)
{
    struct stat status;
    while (path.size() > 1 && stat(path.c_str(), &status) != 0) {
        const size_t slash = path.rfind('/');
        if (slash == std::string::npos)
            return ".";
        path.resize(slash == 0 ? 1 : slash);
    }
    return path;
}

std::vector<std::string> obstacles(bool in_capsule)
{
    std::vector<std::string> found;
    if (!in_capsule) {
        found.emplace_back("this job runs without Cryo and cannot be saved: start it with "
                           "'cr_run mpirun ...'");
        return found;
    }
    if (variable("CRYO_JOB").empty())
        found.emplace_back("there is no daemon for ompi-checkpoint: start the job with "
                           "'cr_run mpirun ...', where cr_run stands in front of mpirun");
    if (is_set(directory)) {
        const std::string where = existing(directory);
        struct stat status;
        errno = 0;
        if (stat(where.c_str(), &status) == 0 && !S_ISDIR(status.st_mode))
            errno = ENOTDIR;
        if (errno != 0 || access(where.c_str(), W_OK | X_OK) != 0)
            found.push_back("snapshots cannot be written to hook_cryo_directory=" +
                            std::string(directory) + ": " + where + ": " + strerror(errno));
    }
    if (is_set(backend) && strcmp(backend, "kmod") == 0 && access("/dev/cryo", R_OK) != 0)
        found.push_back("hook_cryo_backend=kmod, but the module is not there: /dev/cryo: " +
                        std::string(strerror(errno)));
    return found;
}

void after_init(int /*argc*/, char ** /*argv*/, int /*requested*/, int * /*provided*/)
{
    const std::string rank = variable("OMPI_COMM_WORLD_RANK");
    // The capsule sets this only for the library that it hosts.
    const bool in_capsule = !variable("CRYO_CAPSULE_OPEN").empty();
    const std::vector<std::string> found = obstacles(in_capsule);
    if (found.empty() && verbose > 0)
        opal_output(0, "cryo: rank %s is covered: ompi-checkpoint can save it", rank.c_str());
    // Rank 0 speaks for all, which would print the same.
    if (rank != "0" && !rank.empty() && verbose == 0)
        return;
    for (const std::string &obstacle : found)
        opal_output(0, "cryo: %s", obstacle.c_str());
}

} // namespace
