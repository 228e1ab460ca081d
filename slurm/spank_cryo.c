// SPDX-License-Identifier: Apache-2.0
//
// A SPANK plug-in: options of Slurm's sbatch, srun and salloc with which a job's programs are
// saved, and go on where they were when the job is started again (docs/batch-systems.md).
//
// In slurmstepd, as root, it keeps the words of these options, and does nothing else. A task is
// changed in the process that is about to execute it and is its user's by then: slurm-task, which
// lies beside this file, is put in front of the program. So it is executed as any task is: after
// task prologs, with the limits of the job and in its cgroup. This file opens and executes nothing.

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include <slurm/slurm.h>
#include <slurm/spank.h>

SPANK_PLUGIN(cryo, 1)

enum option { ALONE, INTERVAL, DIRECTORY };
enum { REFUSED = -1 }; // slurmstepd takes a positive number for success

static bool wanted;
static char interval[32];
static char directory[PATH_MAX];

// As cr_run understands it, which says what is wrong with others when the job has begun: too late.
static bool is_interval(const char *word)
{
    static const char *const units[] = {"", "ms", "s", "m", "min", "h", "d"};
    const size_t whole = strspn(word, "0123456789");
    if (strcmp(word, "auto") == 0)
        return true;
    if (whole == 0 || strlen(word) >= sizeof(interval))
        return false;
    const char *unit = word + whole;
    if (*unit == '.')
        unit += 1 + strspn(unit + 1, "0123456789");
    for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(unit, units[i]) == 0)
            return true;
    }
    return false;
}

// Slurm calls it where the option is given, and in slurmstepd, with what the user's environment
// says there.
static int note(int which, const char *word, int remote)
{
    (void)remote;
    if (which == INTERVAL) {
        if (word == NULL || !is_interval(word)) {
            slurm_error("--cryo-interval: not a time span such as 90s, 15m or 1.5h, nor auto");
            return REFUSED;
        }
        snprintf(interval, sizeof(interval), "%s", word);
    } else if (which == DIRECTORY) {
        if (word == NULL || *word == 0 || strchr(word, '\n') != NULL ||
            strlen(word) >= sizeof(directory)) {
            slurm_error("--cryo-directory: not the name of a directory");
            return REFUSED;
        }
        snprintf(directory, sizeof(directory), "%s", word);
    }
    wanted = true;
    return ESPANK_SUCCESS;
}

static char alone_name[] = "cryo";
static char alone_help[] =
    "save the program by Cryo, and go on from its last image when the job is "
    "started again";
static char interval_name[] = "cryo-interval";
static char interval_word[] = "time";
static char interval_help[] =
    "with --cryo: save it at this interval: 60s, 5m, 1h or auto (default: 10m)";
static char directory_name[] = "cryo-directory";
static char directory_word[] = "dir";
static char directory_help[] = "with --cryo: where the images go (default: cryo-JOB in the working "
                               "directory, cryo-JOB.STEP of a step)";

static struct spank_option options[] = {
    {alone_name, NULL, alone_help, 0, ALONE, note},
    {interval_name, interval_word, interval_help, 1, INTERVAL, note},
    {directory_name, directory_word, directory_help, 1, DIRECTORY, note},
};

int slurm_spank_init(spank_t spank, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    const spank_context_t context = spank_context();
    if (context != S_CTX_LOCAL && context != S_CTX_ALLOCATOR && context != S_CTX_REMOTE)
        return ESPANK_SUCCESS;
    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        if (spank_option_register(spank, &options[i]) != ESPANK_SUCCESS) {
            slurm_error("cryo: Slurm does not take the option --%s", options[i].name);
            return REFUSED;
        }
    }
    return ESPANK_SUCCESS;
}

// Beside this file, whatever link led to it.
static bool find_front(char *path)
{
    Dl_info self;
    char real[PATH_MAX];
    if (dladdr(options, &self) == 0 || realpath(self.dli_fname, real) == NULL)
        return false;
    char *slash = strrchr(real, '/');
    if (slash == NULL)
        return false;
    *slash = 0;
    return snprintf(path, PATH_MAX, "%s/slurm-task", real) < PATH_MAX && access(path, X_OK) == 0;
}

// A batch script that is saved contains the steps that it starts.
static bool is_in_saved_script(spank_t spank, uint32_t job)
{
    char said[16];
    char own[16];
    snprintf(own, sizeof(own), "%u", job);
    return spank_getenv(spank, "CRYO_SLURM_JOB", said, sizeof(said)) == ESPANK_SUCCESS &&
           strcmp(said, own) == 0;
}

// Why the task cannot be saved; NULL: it can.
static const char *obstacle(spank_t spank, const char *program)
{
    char container[PATH_MAX];
    if (spank_getenv(spank, "SLURM_CONTAINER", container, sizeof(container)) != ESPANK_ENV_NOEXIST)
        return "containers (--container) are not saved";
    if (strchr(program, '/') != NULL && access(program, X_OK) != 0)
        return "it cannot be executed here, or is a file of --multi-prog, whose programs start "
               "themselves under cr_run";
    return NULL;
}

static bool set(spank_t spank, const char *name, const char *value)
{
    return spank_setenv(spank, name, value, 1) == ESPANK_SUCCESS;
}

// In the process that is to become the task.
int slurm_spank_task_init(spank_t spank, int argc, char **argv)
{
    (void)argc;
    (void)argv;
    uid_t user = 0;
    uint32_t job = 0;
    uint32_t step = 0;
    int count = 0;
    char **words = NULL;
    char number[16] = "";
    char front[PATH_MAX];
    if (!wanted)
        return ESPANK_SUCCESS;
    if (spank_get_item(spank, S_JOB_UID, &user) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_ID, &job) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS ||
        spank_get_item(spank, S_JOB_ARGV, &count, &words) != ESPANK_SUCCESS || count < 1 ||
        getuid() != user || geteuid() != user) {
        slurm_spank_log("--cryo: Slurm does not tell what the task is");
        return REFUSED;
    }
    if (step == SLURM_EXTERN_CONT || step == SLURM_INTERACTIVE_STEP ||
        is_in_saved_script(spank, job))
        return ESPANK_SUCCESS;
    const char *why = obstacle(spank, words[0]);
    if (why != NULL) {
        slurm_spank_log("--cryo: %s is not saved: %s", words[0], why);
        return ESPANK_SUCCESS;
    }
    if (!find_front(front)) {
        slurm_spank_log(
            "--cryo: slurm-task is not beside the plug-in: the installation of Cryo on this "
            "node is not complete");
        return REFUSED;
    }
    if (step != SLURM_BATCH_SCRIPT)
        snprintf(number, sizeof(number), "%u", step);
    char *first = strdup(front);
    if (first == NULL || !set(spank, "CRYO_SLURM_PROGRAM", words[0]) ||
        !set(spank, "CRYO_SLURM_STEP", number) || !set(spank, "CRYO_SLURM_INTERVAL", interval) ||
        !set(spank, "CRYO_SLURM_DIRECTORY", directory)) {
        free(first);
        slurm_spank_log("--cryo: %s", strerror(ENOMEM));
        return REFUSED;
    }
    // Slurm hands out the words that it is going to execute, in this process, which needs them for
    // nothing else.
    words[0] = first;
    return ESPANK_SUCCESS;
}
