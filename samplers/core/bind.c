/* ett.sample: statistics, journals, this process. bind_surface.c and
 * bind_tensor.c add the rest. */
#include "samplers/core/bind.h"

#include <math.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "samplers/core/journal.h"
#include "samplers/core/memory.h"
#include "samplers/core/stats.h"

/* sample.stats(list) -> { count, min, median, mean, low_mean, half_width, low,
 * low_half_width } */
static int stats(lua_State *L) {
  size_t n;
  double *x = ett_lua_doubles(L, 1, &n);
  ett_sample_stats s;
  ett_sample_stats_compute(x, n, x, &s); /* x is a copy of the list */
  lua_createtable(L, 0, 8);
  ett_lua_set_integer(L, "count", (lua_Integer)s.count);
  ett_lua_set_number(L, "min", s.min);
  ett_lua_set_number(L, "median", s.median);
  ett_lua_set_number(L, "mean", s.mean);
  ett_lua_set_number(L, "low_mean", s.low_mean);
  ett_lua_set_number(L, "half_width", s.half_width);
  ett_lua_set_number(L, "low", s.low);
  ett_lua_set_number(L, "low_half_width", s.low_half_width);
  return 1;
}

static ett_sample_journal *check_journal(lua_State *L) {
  return ett_lua_box_check(L, 1, ETT_JOURNAL_TYPE, "journal");
}

/* sample.journal(path, header) -> journal | nil, error */
static int journal_open(lua_State *L) {
  const char *path = luaL_checkstring(L, 1), *header = luaL_checkstring(L, 2);
  void **box = ett_lua_box_new(L, ETT_JOURNAL_TYPE);
  ett_err err = {0};
  *box = ett_sample_journal_open(path, header, &err);
  return *box ? 1 : ett_lua_fail(L, &err);
}

static int append_lines(lua_State *L, int sync) {
  ett_sample_journal *j = check_journal(L);
  size_t bytes;
  const char *lines = luaL_checklstring(L, 2, &bytes);
  ett_err err = {0};
  return ett_lua_result(L, ett_sample_journal_append(j, lines, bytes, sync, &err), &err);
}

/* journal:append(lines) -> true | nil, error: one line or several, in one write */
static int journal_append(lua_State *L) {
  return append_lines(L, 1);
}

/* journal:write(lines) -> true | nil, error: append without the sync */
static int journal_write(lua_State *L) {
  return append_lines(L, 0);
}

/* journal:sync() -> true | nil, error */
static int journal_sync(lua_State *L) {
  ett_err err = {0};
  return ett_lua_result(L, ett_sample_journal_sync(check_journal(L), &err), &err);
}

ETT_LUA_CLOSE(journal_close, ETT_JOURNAL_TYPE, ett_sample_journal_close)

static volatile sig_atomic_t interrupts;

static void on_interrupt(int signal_number) {
  (void)signal_number;
  interrupts++;
  if (interrupts >=
      3) /* rows are synced as they are written, so an immediate exit loses none */
    _exit(130);
}

/* sample.catch_interrupts(): SIGINT and SIGTERM are counted from now on; the third ends
 * the process */
static int catch_interrupts(lua_State *L) {
  (void)L;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_interrupt;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL);
  sigaction(SIGTERM, &action, NULL);
  signal(SIGXFSZ, SIG_IGN); /* exceeding a file size limit fails the write and does not
                               kill the process */
  return 0;
}

static int interrupted(lua_State *L) {
  lua_pushboolean(L, interrupts > 0);
  return 1;
}

/* Seconds of the monotonic clock. */
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
  luaL_argcheck(L, seconds >= 0 && seconds < 1e6, 1, "expected 0 to 1,000,000 seconds");
  struct timespec t = {(time_t)seconds, (long)((seconds - floor(seconds)) * 1e9)};
  nanosleep(&t, NULL);
  return 0;
}

static int hostname(lua_State *L) {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  lua_pushstring(L, name);
  return 1;
}

/* sample.default_environment(name, value): sets an unset variable */
static int default_environment(lua_State *L) {
  lua_pushboolean(L, setenv(luaL_checkstring(L, 1), luaL_checkstring(L, 2), 0) == 0);
  return 1;
}

static int processors(lua_State *L) {
  lua_pushinteger(L, sysconf(_SC_NPROCESSORS_ONLN));
  return 1;
}

static const luaL_Reg journal_methods[] = {
    {"append", journal_append},
    {"write", journal_write},
    {"sync", journal_sync},
    {NULL, NULL},
};

static const luaL_Reg functions[] = {
    {"stats", stats},
    {"journal", journal_open},
    {"catch_interrupts", catch_interrupts},
    {"interrupted", interrupted},
    {"now", now},
    {"thread_seconds", thread_seconds},
    {"pause", pause_seconds},
    {"hostname", hostname},
    {"default_environment", default_environment},
    {"processors", processors},
    {NULL, NULL},
};

int luaopen_ett_sample(lua_State *L);
int luaopen_ett_sample(lua_State *L) {
  ett_lua_type(L, ETT_JOURNAL_TYPE, journal_methods, journal_close);
  luaL_newlib(L, functions);
  ett_bind_sample_surface(L);
  ett_bind_sample_tensor(L);
  ett_lua_set_integer(L, "most_threads", ETT_SAMPLE_MOST_THREADS);
  ett_lua_set_integer(L, "most_cold_bytes", ETT_SAMPLE_MOST_COLD_BYTES);
  return 1;
}
