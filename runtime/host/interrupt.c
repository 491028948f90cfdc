/* Ctrl-C and SIGTERM. The signal handler sets a hook, which Lua allows, on the running
 * coroutine. Hooks belong to coroutines, so resume and wrap are replaced by versions that
 * record which one runs. A hook set in advance would halve the speed of every script. */
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <time.h>

#include "bind/common.h"
#include "host/host.h"

#define HOOK_EVENTS (LUA_MASKCALL | LUA_MASKRET | LUA_MASKCOUNT)

static lua_State *volatile running;
static pthread_t lua_thread;
static volatile sig_atomic_t signals;
static volatile sig_atomic_t signals_allowed;
static timer_t again; /* sends SIGTERM once more */
static int has_timer;
static volatile sig_atomic_t terminating; /* SIGTERM came */

/* Raises in the Lua code. After a second signal it stays armed, so that code that catches
 * every error ends too. */
static void raise_interrupt(lua_State *L, lua_Debug *where) {
  (void)where;
  if (signals <= 1)
    lua_sethook(L, NULL, 0, 0);
  lua_createtable(L, 0, 2);
  ett_lua_set_string(L, "kind", "interrupt");
  ett_lua_set_string(L, "message", terminating ? "terminated" : "interrupted");
  luaL_getmetatable(L, "ett.error");
  lua_setmetatable(L, -2);
  lua_error(L);
}

/* Time for removing temporary files after SIGTERM; then the process dies of the signal.
 * No hook runs inside a string pattern, and code that catches every error goes on. */
#define TERMINATION_MILLISECONDS 1500

static void hold(int how) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(how, &set, NULL);
}

static void die(int number) {
  signal(number, SIG_DFL);
  raise(number);
  hold(SIG_UNBLOCK);
}

/* `timeout` and some shells send a signal both to the process and to its group: a second
 * one within this time is the same. */
#define SAME_SIGNAL_SECONDS 0.2

static int is_echo(void) {
  static struct timespec last;
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  double since =
      (double)(now.tv_sec - last.tv_sec) + 1e-9 * (double)(now.tv_nsec - last.tv_nsec);
  if (signals > 0 && since < SAME_SIGNAL_SECONDS)
    return 1;
  last = now;
  return 0;
}

static void on_signal(int number) {
  if (!pthread_equal(pthread_self(), lua_thread)) { /* also ends a wait there */
    pthread_kill(lua_thread, number);
    return;
  }
  if (is_echo())
    return;
  signals++;
  if (signals > signals_allowed || terminating) {
    die(number);
    return;
  }
  if (number == SIGTERM) {
    const struct itimerspec grace = {
        .it_value = {.tv_sec = TERMINATION_MILLISECONDS / 1000,
                     .tv_nsec = TERMINATION_MILLISECONDS % 1000 * 1000000L}};
    terminating = 1;
    if (has_timer) /* not SIGALRM: samplers/cpu uses it */
      timer_settime(again, 0, &grace, NULL);
  }
  if (running)
    lua_sethook(running, raise_interrupt, HOOK_EVENTS, 1);
}

int host_interrupt_reset(void) {
  if (terminating)
    die(SIGTERM);
  const int came = signals > 0;
  signals = 0;
  if (running)
    lua_sethook(running, NULL, 0, 0);
  return came;
}

int host_interrupt_within(lua_State *L, int arguments) {
  hold(SIG_UNBLOCK);
  const int status = lua_pcall(L, arguments, LUA_MULTRET, 0);
  hold(SIG_BLOCK);
  host_interrupt_reset();
  return status;
}

/* resume(co, ...) of the library, with co recorded as running. */
static int resume(lua_State *L) {
  lua_State *co = lua_tothread(L, 1);
  luaL_argexpected(L, co, 1, "coroutine");
  lua_State *outer = running;
  const int arguments = lua_gettop(L) - 1;
  if (!lua_checkstack(co, arguments)) {
    lua_pushboolean(L, 0);
    lua_pushliteral(L, "too many arguments to resume");
    return 2;
  }
  lua_xmove(L, co, arguments);
  running = co;
  int results = 0;
  const int status = lua_resume(co, L, arguments, &results);
  running = outer;
  if (lua_gethook(co) == raise_interrupt) { /* too late for co, or still armed */
    lua_sethook(co, NULL, 0, 0);
    lua_sethook(L, raise_interrupt, HOOK_EVENTS, 1);
  }
  if (status != LUA_OK && status != LUA_YIELD) {
    lua_pushboolean(L, 0);
    lua_xmove(co, L, 1);
    return 2;
  }
  if (!lua_checkstack(L, results + 1)) {
    lua_pop(co, results);
    lua_pushboolean(L, 0);
    lua_pushliteral(L, "too many results to resume");
    return 2;
  }
  lua_pushboolean(L, 1);
  lua_xmove(co, L, results);
  return results + 1;
}

/* The function that wrap returns: resumes its coroutine and propagates its error. */
static int wrapped(lua_State *L) {
  lua_pushcfunction(L, resume);
  lua_insert(L, 1);
  lua_pushvalue(L, lua_upvalueindex(1));
  lua_insert(L, 2);
  lua_State *co = lua_tothread(L, 2);
  lua_call(L, lua_gettop(L) - 1, LUA_MULTRET);
  if (lua_toboolean(L, 1))
    return lua_gettop(L) - 1;
  const int status = lua_status(co);
  if (status != LUA_OK && status != LUA_YIELD)
    lua_resetthread(co);               /* closes its pending variables */
  if (lua_type(L, 2) == LUA_TSTRING) { /* adds the position, as the library does */
    luaL_where(L, 1);
    lua_insert(L, 2);
    lua_concat(L, 2);
  }
  return lua_error(L);
}

static int wrap(lua_State *L) {
  luaL_checktype(L, 1, LUA_TFUNCTION);
  lua_State *co = lua_newthread(L);
  lua_pushvalue(L, 1);
  lua_xmove(L, co, 1);
  lua_pushcclosure(L, wrapped, 1);
  return 1;
}

int host_interrupt_signal(void) {
  return terminating ? SIGTERM : SIGINT;
}

void host_interrupt_patience(int patience) {
  signals_allowed = patience;
}

void host_interrupt_catch(lua_State *L, int patience) {
  running = L;
  lua_thread = pthread_self();
  signals = 0;
  signals_allowed = patience;
  lua_getglobal(L, "coroutine");
  lua_pushcfunction(L, resume);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, wrap);
  lua_setfield(L, -2, "wrap");
  lua_pop(L, 1);
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL); /* no SA_RESTART: a read at a prompt returns */
  sigaction(SIGTERM, &action, NULL);
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGTERM;
  has_timer = timer_create(CLOCK_MONOTONIC, &event, &again) == 0;
}
