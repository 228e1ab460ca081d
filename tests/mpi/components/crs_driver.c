/* SPDX-License-Identifier: Apache-2.0 */
/* Opens and selects Open MPI's framework crs with Open MPI's own code, and uses the component:
 *
 *     crs_driver selected                 the name of the component
 *     crs_driver self DIRECTORY           counts, saves itself, and continues counting
 *     crs_driver disabled IMAGE           disables checkpoints until one has been requested
 *     crs_driver save PID DIRECTORY [term|stop]
 *     crs_driver restart DIRECTORY        waits for the restored process, ends as it does
 *     crs_driver become DIRECTORY         turns into the restored process
 *     crs_driver launch PROGRAM ...       started with the component's preparation
 */
#include <opal_config.h>

#include <opal/constants.h>
#include <opal/mca/base/base.h>
#include <opal/mca/crs/base/base.h>
#include <opal/mca/crs/crs.h>
#include <opal/runtime/opal.h>

#include "libcr.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            exit(3);                                                                               \
        }                                                                                          \
    } while (0)

static opal_crs_base_snapshot_t snapshot;
static opal_crs_base_ckpt_options_t options;

static void prepare(const char *directory)
{
    OBJ_CONSTRUCT(&snapshot, opal_crs_base_snapshot_t);
    OBJ_CONSTRUCT(&options, opal_crs_base_ckpt_options_t);
    snapshot.snapshot_directory = strdup(directory);
    CHECK(asprintf(&snapshot.metadata_filename, "%s/snapshot_meta.data", directory) > 0);
}

static opal_crs_state_type_t save(pid_t pid)
{
    opal_crs_state_type_t state = OPAL_CRS_NONE;
    const int rc = opal_crs.crs_checkpoint(pid, &snapshot, &options, &state);
    CHECK((rc == OPAL_SUCCESS) == (state != OPAL_CRS_ERROR));
    return state;
}

static int self(const char *directory)
{
    volatile int count = 40;
    prepare(directory);
    count++;
    opal_crs_state_type_t state = save(0);
    count++;
    printf("%s %d\n", opal_crs_base_state_str(state), count);
    return state == OPAL_CRS_RESTART ? 7 : state == OPAL_CRS_CONTINUE ? 0 : 1;
}

/* Another process's request waits until checkpoints are enabled; libcr, which the component has
 * loaded, reports its arrival. */
static int disabled(const char *image)
{
    char byte = 0;
    void *library = dlopen("libcr.so.0", RTLD_NOLOAD | RTLD_NOW);
    int (*status)(void) = library != NULL ? (int (*)(void))dlsym(library, "cr_status") : NULL;
    CHECK(status != NULL);
    CHECK(opal_crs.crs_disable_checkpoint() == OPAL_SUCCESS);
    printf("disabled\n");
    fflush(stdout);
    while (status() != CR_STATE_PENDING)
        usleep(1000);
    CHECK(access(image, F_OK) != 0);
    printf("enabled\n");
    fflush(stdout);
    CHECK(opal_crs.crs_enable_checkpoint() == OPAL_SUCCESS);
    CHECK(read(STDIN_FILENO, &byte, 1) == 1); /* stay alive until the image is written */
    return 0;
}

static int restart(const char *directory)
{
    pid_t child = 0;
    int status = 0;
    prepare(directory);
    snapshot.cold_start = true;
    CHECK(opal_crs.crs_restart(&snapshot, true, &child) == OPAL_SUCCESS);
    CHECK(child > 0);
    CHECK(waitpid(child, &status, 0) == child);
    printf("restored %d\n", WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status));
    return WEXITSTATUS(status);
}

static int launch(char **words)
{
    char **environment = NULL;
    char *program = words[0], *cwd = NULL;
    CHECK(opal_crs.crs_prelaunch(0, NULL, &program, &cwd, &words, &environment) == OPAL_SUCCESS);
    execve(program, words, environment);
    perror(program);
    return 127;
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "";
    int result = 2;
    CHECK(opal_init_util(&argc, &argv) == OPAL_SUCCESS);
    CHECK(mca_base_framework_open(&opal_crs_base_framework, 0) == OPAL_SUCCESS);
    CHECK(opal_crs_base_select() == OPAL_SUCCESS);
    const char *name = opal_crs_base_selected_component.base_version.mca_component_name;
    if (strcmp(what, "selected") == 0) {
        printf("%s\n", name);
        result = 0;
    } else if (strcmp(name, "cryo") != 0) {
        fprintf(stderr, "selected: %s\n", name);
    } else if (strcmp(what, "self") == 0 && argc == 3) {
        result = self(argv[2]);
    } else if (strcmp(what, "disabled") == 0 && argc == 3) {
        result = disabled(argv[2]);
    } else if (strcmp(what, "save") == 0 && argc >= 4) {
        prepare(argv[3]);
        options.term = argc > 4 && strcmp(argv[4], "term") == 0;
        options.stop = argc > 4 && strcmp(argv[4], "stop") == 0;
        result = save(atoi(argv[2])) == OPAL_CRS_CONTINUE ? 0 : 1;
    } else if (strcmp(what, "restart") == 0 && argc == 3) {
        result = restart(argv[2]);
    } else if (strcmp(what, "become") == 0 && argc == 3) {
        prepare(argv[2]);
        opal_crs.crs_restart(&snapshot, false, NULL);
    } else if (strcmp(what, "launch") == 0 && argc > 2) {
        result = launch(argv + 2);
    }
    fflush(stdout);
    mca_base_framework_close(&opal_crs_base_framework);
    return result;
}
