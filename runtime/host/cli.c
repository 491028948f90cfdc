#include "host/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <lauxlib.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "host/allocator.h"
#include "host/heap.h"
#include "host/host.h"
#include "io/utf8.h"

static int wants_traceback(int argc, char **argv) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], "--traceback") == 0)
      return 1;
  return 0;
}

/* Prints a line: text from a file must not reach the terminal as a command. */
static void print_line(const char *text, size_t left) {
  while (left > 0) {
    char shown[ETT_UTF8_PLAIN_SIZE];
    size_t length = 0;
    const size_t read = ett_utf8_plain(text, left, shown, &length);
    fwrite(shown, 1, length, stderr);
    text += read;
    left -= read;
  }
  fputc('\n', stderr);
}

static int to_text(lua_State *L) {
  luaL_tolstring(L, 1, NULL);
  return 1;
}

/* Prints `ett: MESSAGE` for the error on the stack, with --traceback its traceback too.
 * One call writes all of it: ranks that print together share one terminal. */
static void print_error(lua_State *L, int traceback) {
  static char buffer[BUFSIZ];
  int error = lua_gettop(L);
  int is_table = lua_istable(L, error);
  if (is_table && luaL_getmetafield(L, error, "__tostring") == LUA_TNIL)
    lua_getfield(L, error, "message");
  else { /* a script may have replaced __tostring */
    lua_pushcfunction(L, to_text);
    lua_pushvalue(L, error);
    if (lua_pcall(L, 1, 1, 0) != LUA_OK) {
      lua_pop(L, 1);
      lua_pushliteral(L, "an error was raised whose __tostring fails");
    }
  }
  size_t length = 0;
  const char *message = lua_tolstring(L, -1, &length); /* it may hold zero bytes */
  static const char no_text[] =
      "a table was raised, not a message; --traceback shows where";
  setvbuf(stderr, buffer, _IOFBF, sizeof buffer);
  fputs("ett: ", stderr);
  print_line(message ? message : no_text, message ? length : sizeof no_text - 1);
  if (traceback && is_table && lua_getfield(L, error, "traceback") == LUA_TSTRING) {
    const char *lines = lua_tolstring(L, -1, &length);
    print_line(lines, length);
  }
  fflush(stderr);
  setvbuf(stderr, NULL, _IONBF, 0);
}

/* require("ett.cli.main")(argv): returns the exit status. */
static int run(lua_State *L) {
  int argc = (int)lua_tointeger(L, 1);
  char **argv = lua_touserdata(L, 2);
  lua_getglobal(L, "require");
  lua_pushliteral(L, "ett.cli.main");
  lua_call(L, 1, 1);
  lua_createtable(L, argc, 0);
  for (int i = 1; i < argc; i++) {
    lua_pushstring(L, argv[i]);
    lua_rawseti(L, -2, i);
  }
  lua_call(L, 1, 1);
  return 1;
}

/* Opens closed standard streams on /dev/null. Otherwise the first opened file would
 * receive the output. Output streams are opened for reading only, so writing still
 * fails. */
static void fill_standard_streams(void) {
  for (int fd = 0; fd < 3; fd++)
    if (fcntl(fd, F_GETFD) == -1)
      open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

int cli_run(lua_State *L, int argc, char **argv) {
  lua_pushcfunction(L, run);
  lua_pushinteger(L, argc);
  lua_pushlightuserdata(L, argv);
  int status, interrupted = 0;
  if (host_call(L, 2, 1) == LUA_OK) {
    status = (int)lua_tointeger(L, -1);
  } else {
    status = 1;
    if (lua_type(L, -1) == LUA_TTABLE) {
      lua_getfield(L, -1, "kind");
      const char *kind = lua_tostring(L, -1);
      if (kind && strcmp(kind, "usage") == 0)
        status = 2;
      interrupted = kind && strcmp(kind, "interrupt") == 0;
      lua_pop(L, 1);
    }
    print_error(L, wants_traceback(argc, argv));
  }
  return interrupted ? -1 : status;
}

int cli_main(int argc, char **argv) {
  heap_prepare();
  fill_standard_streams();
  const char *why = "";
  lua_State *L = host_open(NULL, &why);
  if (!L) {
    fprintf(stderr, "ett: %s\n", why);
    return 1;
  }
  host_interrupt_catch(L, 1);
  int status = cli_run(L, argc, argv);
  const int interrupted = status < 0;
  host_close(L);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "ett: cannot write the output: %s\n", strerror(errno));
    status = status > 0 ? status : 1;
  }
  if (interrupted) { /* die of the signal: a calling shell then stops too */
    signal(host_interrupt_signal(), SIG_DFL);
    raise(host_interrupt_signal());
  }
  return interrupted ? 1 : status;
}
