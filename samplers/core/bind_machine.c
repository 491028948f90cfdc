/* ett.sample: interrupts, clocks and facts of this process. */
#include "samplers/core/bind.h"

#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "samplers/core/bounds.h"

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupts++;
  if (interrupts >= 3) /* someone means it: the rows are safe at any moment */
    _exit(130);
}

/* sample.catch_interrupts(): from now on SIGINT and SIGTERM only count. */
static int catch_interrupts(lua_State *L) {
  (void)L;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGXFSZ, SIG_IGN); /* a file size limit is an error of write, not a death */
  return 0;
}

static int interrupted(lua_State *L) {
  lua_pushboolean(L, interrupts > 0);
  return 1;
}

/* Seconds of a clock that never goes back. */
static int now(lua_State *L) {
  lua_pushnumber(L, ett_clock(CLOCK_MONOTONIC));
  return 1;
}

/* Processor seconds of the calling thread. */
static int thread_seconds(lua_State *L) {
  lua_pushnumber(L, ett_clock(CLOCK_THREAD_CPUTIME_ID));
  return 1;
}

static int pause_seconds(lua_State *L) {
  double seconds = luaL_checknumber(L, 1);
  luaL_argcheck(L, seconds >= 0 && seconds < 1e6, 1, "0 to a million seconds");
  struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
  nanosleep(&t, NULL);
  return 0;
}

static int is_terminal(lua_State *L) {
  lua_pushboolean(L, isatty((int)luaL_checkinteger(L, 1)));
  return 1;
}

static int hostname(lua_State *L) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  lua_pushstring(L, name);
  return 1;
}

/* sample.default_environment(name, value): sets a variable that is not set yet. */
static int default_environment(lua_State *L) {
  lua_pushboolean(L, setenv(luaL_checkstring(L, 1), luaL_checkstring(L, 2), 0) == 0);
  return 1;
}

static int processors(lua_State *L) {
  lua_pushinteger(L, sysconf(_SC_NPROCESSORS_ONLN));
  return 1;
}

static int process_id(lua_State *L) {
  lua_pushinteger(L, getpid());
  return 1;
}

static const luaL_Reg functions[] = {
    {"catch_interrupts", catch_interrupts},
    {"interrupted", interrupted},
    {"now", now},
    {"thread_seconds", thread_seconds},
    {"pause", pause_seconds},
    {"is_terminal", is_terminal},
    {"hostname", hostname},
    {"default_environment", default_environment},
    {"processors", processors},
    {"process_id", process_id},
    {NULL, NULL},
};

void ett_bind_sample_machine(lua_State *L) {
  luaL_setfuncs(L, functions, 0);
  lua_pushinteger(L, ETT_SAMPLE_MOST_THREADS);
  lua_setfield(L, -2, "most_threads");
  lua_pushinteger(L, ETT_SAMPLE_MOST_COLD_BYTES);
  lua_setfield(L, -2, "most_cold_bytes");
}
