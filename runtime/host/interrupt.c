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
#include <unistd.h>

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
static timer_t ticks;                     /* from a signal until its error is raised */
static int has_ticks;
volatile sig_atomic_t host_allocations, host_allocating;

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

/* No hook runs during a pattern match, which may take years. A match holds no lock and
 * does not change the state, so an error may be raised there. */
#define TICK_NANOSECONDS 50000000L
static lua_CFunction matchers[4];

static void set_ticks(long nanoseconds) {
  const struct itimerspec each = {.it_value.tv_nsec = nanoseconds,
                                  .it_interval.tv_nsec = nanoseconds};
  if (has_ticks)
    timer_settime(ticks, 0, &each, NULL);
}

static int is_matching(lua_State *L) {
  lua_Debug where;
  if (!lua_getstack(L, 0, &where) || !lua_getinfo(L, "S", &where) ||
      strcmp(where.what, "C") != 0)
    return 0;
  lua_getinfo(L, "f", &where);
  const lua_CFunction function = lua_tocfunction(L, -1);
  lua_pop(L, 1);
  for (size_t i = 0; i < sizeof matchers / sizeof *matchers; i++)
    if (function && function == matchers[i])
      return 1;
  return 0;
}

/* If two ticks pass without an allocation inside a matcher, only matching ran between
 * them. A call of the system's allocator may also last longer, as when gigabytes are
 * freed. */
static void on_tick(int number) {
  static sig_atomic_t before;
  if (!pthread_equal(pthread_self(), lua_thread)) {
    pthread_kill(lua_thread, number);
    return;
  }
  if (!running || lua_gethook(running) != raise_interrupt) { /* the error was raised */
    set_ticks(0);
    return;
  }
  const sig_atomic_t now = host_allocations;
  const int quiet = now == before && !host_allocating;
  before = now;
  if (quiet && is_matching(running))
    raise_interrupt(running, NULL);
}

static void find_matchers(lua_State *L) {
  static const char *const names[] = {"find", "match", "gsub"};
  lua_getglobal(L, "string");
  for (int i = 0; i < 3; i++) {
    lua_getfield(L, -1, names[i]);
    matchers[i] = lua_tocfunction(L, -1);
    lua_pop(L, 1);
  }
  lua_getfield(L, -1, "gmatch");
  lua_pushliteral(L, "");
  lua_pushliteral(L, "");
  lua_call(L, 2, 1);
  matchers[3] = lua_tocfunction(L, -1); /* its iterator */
  lua_pop(L, 2);
}

/* Grace period after SIGTERM for removing temporary files. Then the signal kills the
 * process, because code that catches every error would continue. */
#define TERMINATION_SECONDS 1.5

static void set_grace(double seconds) {
  const time_t whole = (time_t)seconds;
  const struct itimerspec grace = {
      .it_value = {.tv_sec = whole, .tv_nsec = (long)(1e9 * (seconds - (double)whole))}};
  if (has_timer) /* not SIGALRM: samplers/cpu uses it */
    timer_settime(again, 0, &grace, NULL);
}

void host_interrupt_grace(double seconds) {
  if (terminating)
    set_grace(seconds);
}

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

/* `timeout` and some shells signal both the process and its group. A second signal within
 * this time counts as the same. */
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
  if (!pthread_equal(pthread_self(),
                     lua_thread)) { /* interrupts a blocking call of that thread too */
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
    terminating = 1;
    set_grace(TERMINATION_SECONDS);
  }
  if (running)
    lua_sethook(running, raise_interrupt, HOOK_EVENTS, 1);
  set_ticks(TICK_NANOSECONDS);
}

int host_interrupt_reset(void) {
  if (terminating)
    die(SIGTERM);
  const int came = signals > 0;
  signals = 0;
  set_ticks(0);
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
  if (lua_gethook(co) ==
      raise_interrupt) { /* too late for co, or the hook is still set */
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

static int make_timer(int number, timer_t *timer) {
  struct sigevent event;
  memset(&event, 0, sizeof event);
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = number;
  return timer_create(CLOCK_MONOTONIC, &event, timer) == 0;
}

void host_interrupt_follow(lua_State *L) {
  running = L;
  lua_thread = pthread_self();
  signals = 0;
  lua_getglobal(L, "coroutine");
  lua_pushcfunction(L, resume);
  lua_setfield(L, -2, "resume");
  lua_pushcfunction(L, wrap);
  lua_setfield(L, -2, "wrap");
  lua_pop(L, 1);
}

static struct sigaction programs; /* SIGINT of the program that calls the library */
static int shares;

static void on_shared_signal(int number, siginfo_t *info, void *context) {
  if (!pthread_equal(pthread_self(), lua_thread)) {
    pthread_kill(lua_thread, number);
    return;
  }
  if (programs.sa_flags & SA_SIGINFO)
    programs.sa_sigaction(number, info, context);
  else
    programs.sa_handler(number);
  signals++;
  lua_sethook(running, raise_interrupt, HOOK_EVENTS, 1);
}

/* On the main thread only: there Python runs its handlers. */
void host_interrupt_share(void) {
  lua_thread = pthread_self();
  if (gettid() != getpid() || sigaction(SIGINT, NULL, &programs) != 0 ||
      (!(programs.sa_flags & SA_SIGINFO) &&
       (programs.sa_handler == SIG_DFL || programs.sa_handler == SIG_IGN)))
    return;
  struct sigaction action = programs;
  action.sa_flags = (action.sa_flags | SA_SIGINFO) & ~(int)SA_RESETHAND;
  action.sa_sigaction = on_shared_signal;
  shares = sigaction(SIGINT, &action, NULL) == 0;
}

int host_interrupt_release(void) {
  if (!shares)
    return 0;
  sigaction(SIGINT, &programs, NULL);
  shares = 0;
  return host_interrupt_reset();
}

void host_interrupt_catch(lua_State *L, int patience) {
  host_interrupt_follow(L);
  signals_allowed = patience;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_handler = on_signal;
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, NULL); /* no SA_RESTART: a read at a prompt returns */
  sigaction(SIGTERM, &action, NULL);
  find_matchers(L);
  action.sa_handler = on_tick;
  action.sa_flags = SA_RESTART | SA_NODEFER; /* the handler may leave by an error */
  sigaction(SIGRTMIN, &action, NULL);
  has_timer = make_timer(SIGTERM, &again);
  has_ticks = make_timer(SIGRTMIN, &ticks);
}
