// SPDX-License-Identifier: Apache-2.0
//
// cryo._cryo: what the Python module cryo needs of libcr, in the stable ABI, so that one build
// serves every Python from 3.9 on. Each function is one step; cryo/__init__.py makes the interface
// of them.
//
// Python code runs in threads only, never in a signal handler: its callbacks are one THREAD-context
// callback of libcr. That takes the interpreter's lock before the first callback, and keeps it
// until the last has returned, across cr_checkpoint(): no Python code of another thread runs
// between what the callbacks have prepared and the image. Whatever waits for a checkpoint gives the
// lock away, and no thread is held after a checkpoint (cr_hold_ctrl), since one may own a lock that
// a callback needs.
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <cryo_ckpt.h>
#include <dlfcn.h>
#include <errno.h>
#include <libcr.h>
#include <stdlib.h>

static PyObject *before; // () -> may the checkpoint be taken?
static PyObject *after;  // (restored) -> may the program go on?
static cr_callback_id_t callback = -1;

static __thread int is_client;
static __thread cr_client_id_t client;
static __thread int sections; // that this thread is in
static __thread int in_callback;

// OSError's arguments, of a CR_E* code, too; __init__.py makes cryo.Error of it.
static PyObject *fail(int code)
{
    PyObject *arguments = Py_BuildValue("(is)", code, cr_strerror(code));
    if (arguments != NULL)
        PyErr_SetObject(PyExc_OSError, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

static int become_client(void)
{
    if (is_client)
        return 0;
    client = cr_init();
    if (client < 0)
        return -1;
    is_client = 1;
    return 0;
}

static int says_yes(PyObject *function, PyObject *arguments)
{
    PyObject *said = function != NULL ? PyObject_CallObject(function, arguments) : NULL;
    const int yes = said != NULL && PyObject_IsTrue(said) == 1;
    if (PyErr_Occurred() != NULL)
        PyErr_WriteUnraisable(function);
    Py_XDECREF(said);
    return yes;
}

static int on_checkpoint(void *argument)
{
    (void)argument;
    const PyGILState_STATE lock = PyGILState_Ensure();
    in_callback = 1;
    const int ready = says_yes(before, NULL);
    const int outcome = cr_checkpoint(ready ? CR_CHECKPOINT_READY : CR_CHECKPOINT_TEMP_FAILURE);
    PyObject *arguments = Py_BuildValue("(O)", outcome > 0 ? Py_True : Py_False);
    const int goes_on = says_yes(after, arguments);
    Py_XDECREF(arguments);
    in_callback = 0;
    PyGILState_Release(lock);
    return outcome > 0 && !goes_on;
}

static PyObject *init(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    if (become_client() < 0)
        return fail(errno);
    Py_RETURN_NONE;
}

static PyObject *forked(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    is_client = 0;
    sections = 0;
    in_callback = 0;
    callback = -1;
    Py_RETURN_NONE;
}

static PyObject *listen(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *first = NULL;
    PyObject *last = NULL;
    if (!PyArg_ParseTuple(arguments, "OO", &first, &last))
        return NULL;
    if (become_client() < 0)
        return fail(errno);
    if (callback >= 0)
        Py_RETURN_NONE;
    if (before == NULL) { // for as long as the process lives
        Py_INCREF(first);
        Py_INCREF(last);
        before = first;
        after = last;
    }
    int error = 0;
    Py_BEGIN_ALLOW_THREADS cr_hold_ctrl(CR_HOLD_SCOPE_INIT, CR_HOLD_NONE);
    cr_hold_ctrl(CR_HOLD_SCOPE_UNINIT, CR_HOLD_NONE);
    callback = cr_register_callback(on_checkpoint, NULL, CR_THREAD_CONTEXT);
    error = callback < 0 ? errno : 0;
    Py_END_ALLOW_THREADS if (error != 0) return fail(error);
    Py_RETURN_NONE;
}

// Before the interpreter ends: a thread that asked for its lock then would be ended.
static PyObject *deafen(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    if (callback < 0 || in_callback || become_client() < 0)
        Py_RETURN_NONE;
    Py_BEGIN_ALLOW_THREADS cr_replace_callback(callback, NULL, NULL, CR_THREAD_CONTEXT);
    Py_END_ALLOW_THREADS Py_RETURN_NONE;
}

static PyObject *enter(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    if (in_callback)
        Py_RETURN_NONE; // no other checkpoint begins meanwhile
    if (become_client() < 0)
        return fail(errno);
    int done = 0;
    if (sections > 0)
        done = cr_enter_cs(client); // waits for nothing
    else {
        Py_BEGIN_ALLOW_THREADS done = cr_enter_cs(client);
        Py_END_ALLOW_THREADS
    }
    if (done < 0)
        return fail(errno);
    sections++;
    Py_RETURN_NONE;
}

static PyObject *leave(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    if (in_callback)
        Py_RETURN_NONE;
    if (sections == 0)
        return fail(EINVAL);
    sections--;
    int error = 0;
    Py_BEGIN_ALLOW_THREADS if (cr_leave_cs(client) < 0) // takes the checkpoint that waits
        error = errno;
    Py_END_ALLOW_THREADS if (error != 0) return fail(error);
    Py_RETURN_NONE;
}

static PyObject *inside(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyBool_FromLong(sections > 0);
}

static PyObject *called_back(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyBool_FromLong(in_callback);
}

// (fd, tree, timeout, flags) -> handle
static PyObject *request(PyObject *module, PyObject *arguments)
{
    (void)module;
    int fd = -1;
    int tree = 0;
    unsigned timeout = 0;
    unsigned flags = 0;
    if (!PyArg_ParseTuple(arguments, "ipII", &fd, &tree, &timeout, &flags))
        return NULL;
    cr_checkpoint_args_t what;
    if (cr_initialize_checkpoint_args_t(&what) < 0)
        return fail(errno);
    what.cr_fd = fd;
    what.cr_scope = tree ? CR_SCOPE_TREE : CR_SCOPE_PROC;
    what.cr_timeout = timeout;
    what.cr_flags = flags;
    cr_checkpoint_handle_t handle = 0;
    int error = 0;
    Py_BEGIN_ALLOW_THREADS error = cr_request_checkpoint(&what, &handle) < 0 ? errno : 0;
    Py_END_ALLOW_THREADS return error != 0 ? fail(error) : PyLong_FromUnsignedLong(handle);
}

// Waits for a request, and obeys the program's signals meanwhile.
static PyObject *await(PyObject *module, PyObject *arguments)
{
    (void)module;
    unsigned long handle = 0;
    if (!PyArg_ParseTuple(arguments, "k", &handle))
        return NULL;
    cr_checkpoint_handle_t of = handle;
    for (;;) {
        int error = 0;
        Py_BEGIN_ALLOW_THREADS error = cr_wait_checkpoint(&of, NULL) < 0 ? errno : 0;
        Py_END_ALLOW_THREADS if (error == 0) Py_RETURN_NONE;
        if (error != EINTR)
            return fail(error);
        if (PyErr_CheckSignals() < 0)
            return NULL;
    }
}

// (handle) -> (error, messages), or None while the request is not complete
static PyObject *reap(PyObject *module, PyObject *arguments)
{
    (void)module;
    unsigned long handle = 0;
    if (!PyArg_ParseTuple(arguments, "k", &handle))
        return NULL;
    cr_checkpoint_handle_t of = handle;
    struct timeval at_once = {0, 0};
    char *messages = NULL;
    int done = 0;
    int error = 0;
    Py_BEGIN_ALLOW_THREADS done = cr_poll_checkpoint_msg(&of, &at_once, &messages);
    error = done < 0 ? errno : 0;
    Py_END_ALLOW_THREADS PyObject *result = NULL;
    if (done == 0)
        result = Py_BuildValue("");
    else {
        PyObject *text =
            messages == NULL ? PyUnicode_FromString("") : PyUnicode_DecodeFSDefault(messages);
        if (text != NULL)
            result = Py_BuildValue("(iN)", error, text);
    }
    free(messages);
    return result;
}

// Every callback has ended when this returns.
static PyObject *settle(PyObject *module, PyObject *none)
{
    PyObject *entered = enter(module, none);
    if (entered == NULL)
        return NULL;
    Py_DECREF(entered);
    return leave(module, none);
}

static PyObject *describe(PyObject *module, PyObject *arguments)
{
    (void)module;
    int code = 0;
    if (!PyArg_ParseTuple(arguments, "i", &code))
        return NULL;
    return PyUnicode_DecodeFSDefault(cr_strerror(code));
}

static PyObject *restarts(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyLong_FromLong(cr_restarts());
}

static PyObject *preloaded(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyBool_FromLong(dlsym(RTLD_DEFAULT, "cryo_agent_interface") != NULL);
}

static PyObject *version(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return PyUnicode_FromString(cr_version_string());
}

static PyObject *save_job(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    int done = 0;
    Py_BEGIN_ALLOW_THREADS done = MPI_Ckpt();
    Py_END_ALLOW_THREADS return PyLong_FromLong(done);
}

static PyMethodDef methods[] = {
    {"init", init, METH_NOARGS, NULL},           {"forked", forked, METH_NOARGS, NULL},
    {"listen", listen, METH_VARARGS, NULL},      {"deafen", deafen, METH_NOARGS, NULL},
    {"enter", enter, METH_NOARGS, NULL},         {"leave", leave, METH_NOARGS, NULL},
    {"inside", inside, METH_NOARGS, NULL},       {"called_back", called_back, METH_NOARGS, NULL},
    {"request", request, METH_VARARGS, NULL},    {"await_", await, METH_VARARGS, NULL},
    {"reap", reap, METH_VARARGS, NULL},          {"settle", settle, METH_NOARGS, NULL},
    {"describe", describe, METH_VARARGS, NULL},  {"restarts", restarts, METH_NOARGS, NULL},
    {"preloaded", preloaded, METH_NOARGS, NULL}, {"version", version, METH_NOARGS, NULL},
    {"save_job", save_job, METH_NOARGS, NULL},   {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "_cryo",
    "libcr, for the module cryo",
    -1,
    methods,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__cryo(void)
{
    PyObject *module = PyModule_Create(&definition);
    if (module == NULL)
        return NULL;
    const struct {
        const char *name;
        long value;
    } constants[] = {
        {"DEST_CWD", CR_DEST_CWD},
        {"ERESTARTED", CR_ERESTARTED},
        {"ETEMPFAIL", CR_ETEMPFAIL},
        {"DUMP_ALL", CR_CHKPT_DUMP_ALL},
        {"DELTA_AUTO", CR_CHKPT_DELTA_AUTO},
        {"DELTA_INCREMENTAL", CR_CHKPT_DELTA_INCREMENTAL},
        {"DELTA_DIFFERENTIAL", CR_CHKPT_DELTA_DIFFERENTIAL},
        {"JOB_FAILED", CKPT_FAILED},
        {"JOB_NOT_COVERED", CKPT_NOT_COVERED},
    };
    for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++) {
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0) {
            Py_DECREF(module);
            return NULL;
        }
    }
    return module;
}
