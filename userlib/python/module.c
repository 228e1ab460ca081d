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
//
// A handler of Python's may raise an exception wherever a function has returned, KeyboardInterrupt
// say. So what must not be lost then is done in here: a section is entered by a function that
// `with` itself calls, and a request is noted where it is made.
#define Py_LIMITED_API 0x03090000
#include <Python.h>

#include <cryo_ckpt.h>
#include <dlfcn.h>
#include <errno.h>
#include <libcr.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static PyObject *failure; // the class of what is raised: an OSError, of a CR_E* code, too
static PyObject *before;  // () -> may the checkpoint be taken?
static PyObject *after;   // (restored) -> may the program go on?
static cr_callback_id_t callback = -1;
static atomic_int ends;    // the interpreter does: no callback begins any more
static atomic_int running; // callbacks are

static __thread int is_client;
static __thread cr_client_id_t client;
static __thread int sections;  // that this thread is in
static __thread int inherited; // sections that the parent was in, which this child leaves as well
static __thread int in_callback;

static PyObject *text_of(int code)
{
    return PyUnicode_DecodeLocale(cr_strerror(code), "surrogateescape");
}

static PyObject *fail(int code)
{
    PyObject *arguments = Py_BuildValue("(iN)", code, text_of(code));
    if (arguments != NULL)
        PyErr_SetObject(failure, arguments);
    Py_XDECREF(arguments);
    return NULL;
}

static int become_client(void)
{
    if (is_client)
        return 0;
    client = cr_init();
    if (client < 0) {
        fail(errno);
        return -1;
    }
    is_client = 1;
    return 0;
}

// To be called without the interpreter's lock.
static void nap(void)
{
    const struct timespec soon = {0, 1000000};
    nanosleep(&soon, NULL);
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
    running = 1;
    if (ends) { // a thread that asked for the lock now might be ended
        running = 0;
        return 0;
    }
    const PyGILState_STATE lock = PyGILState_Ensure();
    in_callback = 1;
    const int ready = says_yes(before, NULL);
    const int outcome = cr_checkpoint(ready ? CR_CHECKPOINT_READY : CR_CHECKPOINT_TEMP_FAILURE);
    PyObject *arguments = Py_BuildValue("(O)", outcome > 0 ? Py_True : Py_False);
    const int goes_on = says_yes(after, arguments);
    Py_XDECREF(arguments);
    PyGILState_Release(lock);
    in_callback = 0;
    running = 0;
    return outcome > 0 && !goes_on;
}

static PyObject *init(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    // For callbacks, libcr's thread becomes one of the main interpreter.
    if (PyInterpreterState_GetID(PyInterpreterState_Get()) != 0) {
        PyObject *arguments =
            Py_BuildValue("(is)", ENOTSUP, "only the main interpreter of a process can");
        if (arguments != NULL)
            PyErr_SetObject(failure, arguments);
        Py_XDECREF(arguments);
        return NULL;
    }
    if (become_client() < 0)
        return NULL;
    Py_RETURN_NONE;
}

// In a child, which stays in the callback in which it was made.
static PyObject *forked(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    is_client = 0;
    inherited += sections;
    sections = 0;
    running = in_callback;
    callback = -1;
    Py_RETURN_NONE;
}

// To be called by one thread at a time.
static PyObject *listen(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *first = NULL;
    PyObject *last = NULL;
    if (!PyArg_ParseTuple(arguments, "OO", &first, &last) || become_client() < 0)
        return NULL;
    if (callback >= 0)
        Py_RETURN_NONE;
    if (before == NULL) { // for as long as the process lives
        Py_INCREF(first);
        Py_INCREF(last);
        before = first;
        after = last;
    }
    int error = 0;
    Py_BEGIN_ALLOW_THREADS;
    cr_hold_ctrl(CR_HOLD_SCOPE_INIT, CR_HOLD_NONE);
    cr_hold_ctrl(CR_HOLD_SCOPE_UNINIT, CR_HOLD_NONE);
    callback = cr_register_callback(on_checkpoint, NULL, CR_THREAD_CONTEXT);
    error = callback < 0 ? errno : 0;
    Py_END_ALLOW_THREADS;
    if (error != 0)
        return fail(error);
    Py_RETURN_NONE;
}

// Before the interpreter ends. Waits for callbacks that have begun, but for no checkpoint: that may
// wait for a section of a thread for which nobody waits.
static PyObject *deafen(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    ends = 1;
    while (running && !in_callback) {
        Py_BEGIN_ALLOW_THREADS;
        nap();
        Py_END_ALLOW_THREADS;
        if (PyErr_CheckSignals() < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

// Whether this is the thread that runs Python's handlers of signals. With the signal of checkpoints
// blocked, only a wait in libcr lets a checkpoint go on that this thread has to continue.
static int may_poll(void)
{
    sigset_t blocked;
    return syscall(SYS_gettid) == getpid() && pthread_sigmask(SIG_BLOCK, NULL, &blocked) == 0 &&
           !sigismember(&blocked, CR_SIGNUM);
}

// 0; or -1 with an exception, and the thread is in no section.
static int enter(void)
{
    if (become_client() < 0)
        return -1;
    const int polls = sections == 0 && may_poll();
    for (;;) {
        int done = 0;
        int error = 0;
        if (sections > 0) {
            done = cr_enter_cs(client); // waits for nothing
            error = errno;
        } else {
            Py_BEGIN_ALLOW_THREADS;
            done = polls ? cr_tryenter_cs(client) : cr_enter_cs(client);
            error = errno;
            if (done > 0)
                nap();
            Py_END_ALLOW_THREADS;
        }
        if (done < 0) {
            fail(error);
            return -1;
        }
        if (done == 0) {
            sections++;
            return 0;
        }
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
}

static PyObject *leave(void)
{
    int error = 0;
    sections--;
    Py_BEGIN_ALLOW_THREADS;
    error = cr_leave_cs(client) < 0 ? errno : 0; // takes the checkpoint that waits
    Py_END_ALLOW_THREADS;
    if (error != 0)
        return fail(error);
    Py_RETURN_NONE;
}

// In a callback, no other checkpoint begins anyway.
static PyObject *section_enter(PyObject *self, PyObject *none)
{
    (void)none;
    if (!in_callback && enter() < 0)
        return NULL;
    Py_INCREF(self);
    return self;
}

static PyObject *section_exit(PyObject *self, PyObject *exception)
{
    (void)self, (void)exception;
    if (in_callback)
        Py_RETURN_NONE;
    if (sections > 0)
        return leave();
    if (inherited > 0) {
        inherited--;
        Py_RETURN_NONE;
    }
    PyErr_SetString(PyExc_RuntimeError, "this thread is in no critical section: one is left by the "
                                        "thread that has entered it");
    return NULL;
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

// (handles, fd, tree, timeout, flags) appends the handle
static PyObject *request(PyObject *module, PyObject *arguments)
{
    (void)module;
    PyObject *handles = NULL;
    int fd = -1;
    int tree = 0;
    unsigned timeout = 0;
    unsigned flags = 0;
    if (!PyArg_ParseTuple(arguments, "OipII", &handles, &fd, &tree, &timeout, &flags))
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
    Py_BEGIN_ALLOW_THREADS;
    error = cr_request_checkpoint(&what, &handle) < 0 ? errno : 0;
    Py_END_ALLOW_THREADS;
    if (error != 0)
        return fail(error);
    PyObject *number = PyLong_FromUnsignedLong(handle);
    const int noted = number != NULL ? PyList_Append(handles, number) : -1;
    Py_XDECREF(number);
    if (noted < 0)
        return NULL;
    Py_RETURN_NONE;
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
        Py_BEGIN_ALLOW_THREADS;
        error = cr_wait_checkpoint(&of, NULL) < 0 ? errno : 0;
        Py_END_ALLOW_THREADS;
        if (error == 0)
            Py_RETURN_NONE;
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
    Py_BEGIN_ALLOW_THREADS;
    done = cr_poll_checkpoint_msg(&of, &at_once, &messages);
    error = done < 0 ? errno : 0;
    Py_END_ALLOW_THREADS;
    PyObject *result = NULL;
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

// Every callback has ended when this returns. Not in a callback, nor in a section.
static PyObject *settle(PyObject *module, PyObject *none)
{
    (void)module, (void)none;
    return enter() < 0 ? NULL : leave();
}

static PyObject *describe(PyObject *module, PyObject *arguments)
{
    (void)module;
    int code = 0;
    if (!PyArg_ParseTuple(arguments, "i", &code))
        return NULL;
    return text_of(code);
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
    Py_BEGIN_ALLOW_THREADS;
    done = MPI_Ckpt();
    Py_END_ALLOW_THREADS;
    return PyLong_FromLong(done);
}

static PyMethodDef methods[] = {
    {"init", init, METH_NOARGS, NULL},           {"forked", forked, METH_NOARGS, NULL},
    {"listen", listen, METH_VARARGS, NULL},      {"deafen", deafen, METH_NOARGS, NULL},
    {"inside", inside, METH_NOARGS, NULL},       {"called_back", called_back, METH_NOARGS, NULL},
    {"request", request, METH_VARARGS, NULL},    {"await_", await, METH_VARARGS, NULL},
    {"reap", reap, METH_VARARGS, NULL},          {"settle", settle, METH_NOARGS, NULL},
    {"describe", describe, METH_VARARGS, NULL},  {"restarts", restarts, METH_NOARGS, NULL},
    {"preloaded", preloaded, METH_NOARGS, NULL}, {"version", version, METH_NOARGS, NULL},
    {"save_job", save_job, METH_NOARGS, NULL},   {NULL, NULL, 0, NULL},
};

static PyMethodDef section_methods[] = {
    {"__enter__", section_enter, METH_NOARGS, NULL},
    {"__exit__", section_exit, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot section_slots[] = {
    {Py_tp_methods, section_methods},
    {0, NULL},
};

static PyType_Spec section = {
    .name = "cryo._cryo.Section",
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = section_slots,
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

// Takes over the reference.
static int add(PyObject *module, const char *name, PyObject *value)
{
    if (value != NULL && PyModule_AddObject(module, name, value) == 0)
        return 0;
    Py_XDECREF(value);
    return -1;
}

static int add_constants(PyObject *module)
{
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
        if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value) < 0)
            return -1;
    }
    return 0;
}

PyMODINIT_FUNC PyInit__cryo(void)
{
    failure = PyErr_NewException("cryo._cryo.Failure", PyExc_OSError, NULL);
    PyObject *module = failure != NULL ? PyModule_Create(&definition) : NULL;
    if (module == NULL)
        return NULL;
    Py_INCREF(failure);
    if (add(module, "Failure", failure) < 0 ||
        add(module, "Section", PyType_FromSpec(&section)) < 0 || add_constants(module) < 0) {
        Py_DECREF(module);
        return NULL;
    }
    return module;
}
