/* The Lua state of an ett process: search paths, preloaded modules, memory limit,
 * signals. */
#ifndef ETT_HOST_H
#define ETT_HOST_H

#include <lua.h>
#include <signal.h>

/* Makes a state with the standard libraries, the preloaded ett modules and the search
 * paths of a tree: the folder that holds lib/ett and share/ett; NULL: that of this
 * executable. Returns NULL, with a static message in *why, if memory or the tree is
 * missing or ETT_MEMORY_LIMIT is not a size. A process has one state at a time.
 *
 * ETT_MEMORY_LIMIT bounds Lua's memory: bytes, or 512M, 4G; by default half of the
 * machine's and at most 4 GiB. Memory of C modules (traces, samples) does not count. */
lua_State *host_open(const char *folder, const char **why);

/* Runs every finaliser of a state of host_open. The blocks of the state are not freed:
 * the process ends. To free each of them takes a twentieth of a short command. */
void host_close(lua_State *L);

/* Makes the modules of a tree known to the state of another program: the table ett.host,
 * the preloaded modules, and the tree's folders after the program's search paths. The
 * state's functions, memory and signals are unchanged. May raise. Returns NULL, or a
 * static error message. */
const char *host_enter(lua_State *L, const char *folder);

/* Removes the last `levels` parts of a path; -1 if it has fewer. */
int host_strip(char *path, int levels);

/* Calls the function below its arguments with a traceback handler, in the locale C;
 * returns the Lua status. On failure the error object is left on the stack. */
int host_call(lua_State *L, int arguments, int results);

/* Counts the calls of Lua's allocator; wraps around. */
extern volatile sig_atomic_t host_allocations;

/* Whether the system's malloc, realloc or free runs for it. */
extern volatile sig_atomic_t host_allocating;

/* From now on SIGINT and SIGTERM raise an error object of kind "interrupt" in the running
 * Lua code, coroutines and string patterns included. More than `patience` signals before
 * the next host_interrupt_reset kill the process. SIGTERM kills it after 1.5 s unless
 * host_interrupt_grace asks for more. */
void host_interrupt_catch(lua_State *L, int patience);
void host_interrupt_patience(int patience);

/* For a library: records which coroutine of the state runs, so that host_interrupt_share
 * can raise in it. Once per state. */
void host_interrupt_follow(lua_State *L);

/* Until host_interrupt_release, SIGINT also raises an error object of kind "interrupt" in
 * the running Lua code of the followed state, after the program's own handler. Without
 * such a handler, or outside of the process's main thread, nothing changes. _release
 * returns whether the signal came. */
void host_interrupt_share(void);
int host_interrupt_release(void);

/* If SIGTERM came, the process is killed after this number of seconds. For clean-up that
 * waits for other processes. */
void host_interrupt_grace(double seconds);

/* Whether a SIGINT came since the last reset. After a SIGTERM it does not return. */
int host_interrupt_reset(void);

/* Calls the function below its arguments, protected; returns the Lua status, with all
 * results on the stack. From then on signals arrive only inside such calls and are held
 * back outside. A signal that comes too late in a call is dropped. */
int host_interrupt_within(lua_State *L, int arguments);

/* The signal behind the last error object of kind "interrupt". */
int host_interrupt_signal(void);

#endif
