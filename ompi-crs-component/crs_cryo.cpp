// SPDX-License-Identifier: Apache-2.0
// mca_crs_cryo.so: Cryo as a component of Open MPI 4.1's framework for single-process
// checkpointers, opal_crs. What Open MPI (or a program that opens the framework) asks of it is done
// through libcr.h, so that a snapshot is what opal-checkpoint makes and opal-restart reads.
#include "base/fd.hpp"
#include "libcr.h"

#include <opal/constants.h>
#include <opal/mca/base/mca_base_var.h>
#include <opal/mca/crs/base/base.h>
#include <opal/mca/crs/crs.h>
#include <opal/util/argv.h>
#include <opal/util/opal_environ.h>
#include <opal/util/output.h>

#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <dlfcn.h>
#include <fcntl.h>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>

namespace {

// For frameworks that choose by priority; the stock component that does nothing has 0.
constexpr int default_priority = 20;
bool restore_ids = true;

int register_parameters();
int open_component();
int query_component(mca_base_module_t **module, int *priority);
int begin();
int end();
int save(pid_t pid, opal_crs_base_snapshot_t *snapshot, opal_crs_base_ckpt_options_t *options,
         opal_crs_state_type_t *state);
int bring_back(opal_crs_base_snapshot_t *snapshot, bool spawn_child, pid_t *child_pid);
int disable();
int enable();
int before_launch(int32_t rank, char *directory, char **program, char **cwd, char ***arguments,
                  char ***environment);
int register_thread();

opal_crs_base_module_t module = {
    .crs_init = begin,
    .crs_finalize = end,
    .crs_checkpoint = save,
    .crs_restart = bring_back,
    .crs_disable_checkpoint = disable,
    .crs_enable_checkpoint = enable,
    .crs_prelaunch = before_launch,
    .crs_reg_thread = register_thread,
};

} // namespace

extern "C" {
// Open MPI looks up this name when it has found the file.
OPAL_MODULE_DECLSPEC extern opal_crs_base_component_t mca_crs_cryo_component;
opal_crs_base_component_t mca_crs_cryo_component = {
    .base_version =
        {
            OPAL_CRS_BASE_VERSION_2_0_0,
            .mca_component_name = "cryo",
            MCA_BASE_MAKE_VERSION(component, CRYO_VERSION_MAJOR, CRYO_VERSION_MINOR,
                                  CRYO_VERSION_PATCH),
            .mca_open_component = open_component,
            .mca_query_component = query_component,
            .mca_register_component_params = register_parameters,
        },
    .base_data = {MCA_BASE_METADATA_PARAM_CHECKPOINT},
    .verbose = 0,
    .output_handle = -1,
    .priority = default_priority,
};
}

namespace {

opal_crs_base_component_t &self = mca_crs_cryo_component;

void register_one(const char *name, const char *help, mca_base_var_type_t type, void *storage)
{
    mca_base_component_var_register(&self.base_version, name, help, type, nullptr, 0,
                                    mca_base_var_flag_t{}, OPAL_INFO_LVL_9,
                                    MCA_BASE_VAR_SCOPE_READONLY, storage);
}

int register_parameters()
{
    register_one("priority", "Priority of the component", MCA_BASE_VAR_TYPE_INT, &self.priority);
    register_one("verbose", "What is done is told from 10 on", MCA_BASE_VAR_TYPE_INT,
                 &self.verbose);
    register_one("restore_ids", "A restored process has its old process and thread ids",
                 MCA_BASE_VAR_TYPE_BOOL, &restore_ids);
    return OPAL_SUCCESS;
}

int open_component()
{
    self.output_handle = opal_output_open(nullptr);
    opal_output_set_verbosity(self.output_handle, self.verbose);
    return OPAL_SUCCESS;
}

int query_component(mca_base_module_t **which, int *priority)
{
    *which = reinterpret_cast<mca_base_module_t *>(&module);
    *priority = self.priority;
    return OPAL_SUCCESS;
}

int fail(const std::string &what, const char *why)
{
    opal_output(0, "crs:cryo: %s: %s", what.c_str(), why);
    return OPAL_ERROR;
}

// Registers each thread that calls libcr with it, once.
int client()
{
    thread_local const cr_client_id_t id = cr_init();
    return id;
}

int begin()
{
    if (client() < 0)
        return fail("libcr cannot be used", cr_strerror(errno));
    return OPAL_SUCCESS;
}

int end()
{
    return OPAL_SUCCESS;
}

int register_thread()
{
    return begin();
}

// A checkpoint requested while disabled waits: the calling thread is in a critical section.
int disable()
{
    if (cr_enter_cs(client()) != 0)
        return fail("checkpoints cannot be disabled", cr_strerror(errno));
    return OPAL_SUCCESS;
}

int enable()
{
    if (cr_leave_cs(client()) != 0)
        return fail("checkpoints cannot be enabled", cr_strerror(errno));
    return OPAL_SUCCESS;
}

struct FileCloser {
    void operator()(FILE *file) const { fclose(file); }
};
using File = std::unique_ptr<FILE, FileCloser>;

struct Freed {
    void operator()(char *text) const { free(text); } // NOLINT: libcr.h says so
};

// Written before the image: a signal that follows could leave no process to write it later.
int write_metadata(opal_crs_base_snapshot_t *snapshot, pid_t pid, const std::string &context)
{
    if (snapshot->component_name == nullptr)
        snapshot->component_name = strdup(self.base_version.mca_component_name);
    if (snapshot->metadata == nullptr)
        snapshot->metadata = fopen(snapshot->metadata_filename, "a");
    if (snapshot->metadata == nullptr)
        return fail(snapshot->metadata_filename, strerror(errno));
    fprintf(snapshot->metadata, "%s%d\n%s%s\n%s%s\n", CRS_METADATA_PID, pid, CRS_METADATA_COMP,
            snapshot->component_name, CRS_METADATA_CONTEXT, context.c_str());
    const bool failed = ferror(snapshot->metadata) != 0;
    if (fclose(std::exchange(snapshot->metadata, nullptr)) != 0 || failed)
        return fail(snapshot->metadata_filename, strerror(errno));
    return OPAL_SUCCESS;
}

int save(pid_t pid, opal_crs_base_snapshot_t *snapshot, opal_crs_base_ckpt_options_t *options,
         opal_crs_state_type_t *state)
{
    *state = OPAL_CRS_ERROR;
    if (client() < 0)
        return fail("libcr cannot be used", cr_strerror(errno));
    const pid_t target = pid == 0 ? getpid() : pid;
    const std::string context = "context." + std::to_string(target);
    const std::string path = std::string(snapshot->snapshot_directory) + "/" + context;
    opal_output_verbose(10, self.output_handle, "crs:cryo: process %d into %s", target,
                        path.c_str());
    if (write_metadata(snapshot, target, context) != OPAL_SUCCESS)
        return OPAL_ERROR;
    const cryo::Fd file(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, S_IRUSR | S_IWUSR));
    if (file.get() < 0)
        return fail(path, strerror(errno));

    cr_checkpoint_args_t arguments;
    cr_initialize_checkpoint_args_t(&arguments);
    arguments.cr_target = target;
    arguments.cr_fd = file.get();
    if (options != nullptr && options->term)
        arguments.cr_signal = SIGTERM;
    else if (options != nullptr && options->stop)
        arguments.cr_signal = SIGSTOP;
    cr_checkpoint_handle_t request = 0;
    char *text = nullptr;
    int done = cr_request_checkpoint(&arguments, &request);
    if (done == 0) {
        do
            done = cr_poll_checkpoint_msg(&request, nullptr, &text);
        while (done == CR_POLL_CHKPT_ERR_PRE && errno == EINTR);
    }
    const int error = errno;
    const std::unique_ptr<char, Freed> log(text);
    if (done > 0) {
        *state = OPAL_CRS_CONTINUE;
        return OPAL_SUCCESS;
    }
    if (error == CR_ERESTARTED) {
        *state = OPAL_CRS_RESTART;
        return OPAL_SUCCESS;
    }
    return fail("process " + std::to_string(target) + " is not saved",
                log && *log ? log.get() : cr_strerror(error));
}

// Open MPI's reader of these files leaves the space behind the colon.
std::string trimmed(const std::string &text)
{
    const size_t first = text.find_first_not_of(' ');
    return first == std::string::npos ? "" : text.substr(first);
}

// The image of a snapshot that was made by another process: all there is are its files.
int find_context(opal_crs_base_snapshot_t *snapshot, std::string &path)
{
    const File metadata(fopen(snapshot->metadata_filename, "r"));
    if (!metadata)
        return fail(snapshot->metadata_filename, strerror(errno));
    char *component = nullptr;
    int pid = 0;
    if (opal_crs_base_extract_expected_component(metadata.get(), &component, &pid) != OPAL_SUCCESS)
        return fail(snapshot->metadata_filename, "it names no component");
    const std::unique_ptr<char, Freed> name(component);
    if (trimmed(component) != self.base_version.mca_component_name)
        return fail(snapshot->metadata_filename, "another component made this snapshot");
    char key[] = "# CONTEXT: ";
    char **values = nullptr;
    opal_crs_base_metadata_read_token(metadata.get(), key, &values);
    if (values == nullptr || values[0] == nullptr)
        return fail(snapshot->metadata_filename, "it names no context");
    path = std::string(snapshot->snapshot_directory) + "/" + trimmed(values[0]);
    opal_argv_free(values);
    return OPAL_SUCCESS;
}

// The path of a file beside the libcr in use.
std::string installed(const char *file)
{
    Dl_info where;
    if (dladdr(reinterpret_cast<void *>(&cr_init), &where) == 0)
        return file;
    const std::string library = where.dli_fname;
    return library.substr(0, library.rfind('/') + 1) + file;
}

// This process becomes cr_restart, which waits for the restored one and ends as it does.
int become(const std::string &path)
{
    const std::string command = installed(CRYO_BIN_FROM_LIB "/cr_restart");
    const char *ids = restore_ids ? "--restore-pid" : "--no-restore-pid";
    const char *const words[] = {"cr_restart", ids,
                                 "--no-restore-sid", // the launcher ends its group
                                 path.c_str(), nullptr};
    execv(command.c_str(), const_cast<char *const *>(words)); // NOLINT: execv's type
    return fail(command, strerror(errno));
}

int bring_back(opal_crs_base_snapshot_t *snapshot, bool spawn_child, pid_t *child_pid)
{
    std::string path;
    if (find_context(snapshot, path) != OPAL_SUCCESS)
        return OPAL_ERROR;
    opal_output_verbose(10, self.output_handle, "crs:cryo: restarting %s", path.c_str());
    if (!spawn_child)
        return become(path);
    const cryo::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.get() < 0)
        return fail(path, strerror(errno));
    cr_restart_args_t arguments;
    cr_initialize_restart_args_t(&arguments);
    arguments.cr_fd = file.get();
    if (!restore_ids)
        arguments.cr_flags &= ~static_cast<unsigned>(CR_RSTRT_RESTORE_PID);
    cr_restart_handle_t request = 0;
    char *text = nullptr;
    int done = cr_request_restart(&arguments, &request);
    if (done == 0) {
        do
            done = cr_poll_restart_msg(&request, nullptr, &text);
        while (done == CR_POLL_RSTRT_ERR_PRE && errno == EINTR);
    }
    const int error = errno;
    const std::unique_ptr<char, Freed> log(text);
    if (done <= 0)
        return fail(path, log && *log ? log.get() : cr_strerror(error));
    if (child_pid != nullptr)
        *child_pid = done;
    return OPAL_SUCCESS;
}

// The program that is about to be launched gets what cr_run would give it.
int before_launch(int32_t /*rank*/, char * /*directory*/, char ** /*program*/, char ** /*cwd*/,
                  char *** /*arguments*/, char ***environment)
{
    std::string preload = installed("libcr_run.so");
    for (char **variable = *environment; variable != nullptr && *variable != nullptr; variable++) {
        constexpr char key[] = "LD_PRELOAD=";
        if (strncmp(*variable, key, sizeof(key) - 1) != 0)
            continue;
        const std::string present = *variable + sizeof(key) - 1;
        if (present.find("libcr_run.so") != std::string::npos)
            return OPAL_SUCCESS;
        preload += present.empty() ? "" : ":" + present;
    }
    return opal_setenv("LD_PRELOAD", preload.c_str(), true, environment);
}

} // namespace
