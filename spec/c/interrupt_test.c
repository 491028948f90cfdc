/* Ctrl-C: where it is raised, and on which thread. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <lauxlib.h>
#include <lualib.h>

#include "host/host.h"

enum { PATIENCE_SECONDS = 120 };

static lua_State *L;

static int open_state(void **state) {
  (void)state;
  L = luaL_newstate();
  if (!L)
    return -1;
  luaL_openlibs(L);
  host_interrupt_catch(L, 100);
  return 0;
}

static int close_state(void **state) {
  (void)state;
  lua_close(L);
  sigset_t none;
  sigemptyset(&none);
  return pthread_sigmask(SIG_SETMASK, &none, NULL);
}

/* Presses Ctrl-C, not so soon after the last one that both count as one. */
static void press(void) {
  usleep(300000);
  raise(SIGINT);
}

static const char *kind_of_error(void) {
  assert_int_equal(lua_type(L, -1), LUA_TTABLE);
  lua_getfield(L, -1, "kind");
  return lua_tostring(L, -1);
}

static void it_is_raised_in_what_runs(void **state) {
  (void)state;
  press();
  assert_int_not_equal(luaL_dostring(L, "local x = 1"), LUA_OK);
  assert_string_equal(kind_of_error(), "interrupt");
  assert_int_equal(host_interrupt_reset(), 1);
  assert_int_equal(host_interrupt_reset(), 0);
}

static void between_two_calls_it_waits_for_the_second(void **state) {
  (void)state;
  assert_int_equal(luaL_loadstring(L, "return 1"), LUA_OK);
  assert_int_equal(host_interrupt_within(L, 0), LUA_OK);
  press();
  assert_int_equal(luaL_dostring(L, "for i = 1, 100 do tostring(i) end"), LUA_OK);
  assert_int_equal(luaL_loadstring(L, "for i = 1, 100 do tostring(i) end"), LUA_OK);
  assert_int_not_equal(host_interrupt_within(L, 0), LUA_OK);
  assert_string_equal(kind_of_error(), "interrupt");
  assert_int_equal(luaL_loadstring(L, "return 2"), LUA_OK);
  assert_int_equal(host_interrupt_within(L, 0), LUA_OK);
}

static int press_and_hide(lua_State *state) {
  press();
  lua_sethook(state, NULL, 0, 0); /* as what clears the hook and not the count */
  return 0;
}

static void what_came_too_late_is_forgotten(void **state) {
  (void)state;
  lua_pushcfunction(L, press_and_hide);
  assert_int_equal(host_interrupt_within(L, 0), LUA_OK);
  assert_int_equal(host_interrupt_reset(), 0);
}

static void *take_it(void *argument) {
  (void)argument;
  pthread_kill(pthread_self(), SIGINT);
  return NULL;
}

static void another_thread_hands_it_to_the_one_that_runs_lua(void **state) {
  (void)state;
  usleep(300000);
  sigset_t held, before;
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  pthread_sigmask(SIG_BLOCK, &held, &before);
  pthread_t thread;
  sigset_t none;
  sigemptyset(&none);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setsigmask_np(&attributes, &none);
  assert_int_equal(pthread_create(&thread, &attributes, take_it, NULL), 0);
  pthread_attr_destroy(&attributes);
  pthread_join(thread, NULL);
  const struct timespec patience = {.tv_sec = PATIENCE_SECONDS};
  const int waited = ppoll(NULL, 0, &patience, &before);
  assert_true(waited < 0 && errno == EINTR);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  assert_int_equal(host_interrupt_reset(), 1);
}

static int is_slow, has_returned;

/* An allocator of Lua. Once is_slow is set, its next large call lasts for several ticks,
 * and a signal comes at its beginning. */
static void *allocate_slowly(void *context, void *block, size_t old_size, size_t size) {
  (void)context, (void)old_size;
  host_allocating = 1;
  void *moved = NULL;
  if (size > 0)
    moved = realloc(block, size);
  else
    free(block);
  if (is_slow && size > 1 << 20) {
    is_slow = 0;
    press();
    struct timespec left = {.tv_nsec = 300000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
    has_returned = 1;
  }
  host_allocating = 0;
  return moved;
}

static void it_never_leaves_the_allocator(void **state) {
  (void)state;
  lua_State *own = lua_newstate(allocate_slowly, NULL);
  assert_non_null(own);
  luaL_openlibs(own);
  host_interrupt_catch(own, 100);
  assert_int_equal(luaL_dostring(own, "text = ('x'):rep(1 << 22)"), LUA_OK);
  assert_int_equal(luaL_loadstring(own, "text:gsub('x', 'yy')"), LUA_OK);
  has_returned = 0;
  is_slow = 1;
  lua_pcall(own, 0, 0, 0);
  assert_int_equal(has_returned, 1);
  assert_int_equal(host_interrupt_reset(), 1);
  host_interrupt_catch(L, 100);
  lua_close(own);
}

#define WITH_LUA(test) cmocka_unit_test_setup_teardown(test, open_state, close_state)

int main(void) {
  const struct CMUnitTest tests[] = {
      WITH_LUA(it_is_raised_in_what_runs),
      WITH_LUA(between_two_calls_it_waits_for_the_second),
      WITH_LUA(what_came_too_late_is_forgotten),
      WITH_LUA(it_never_leaves_the_allocator),
      WITH_LUA(another_thread_hands_it_to_the_one_that_runs_lua),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
