/* A line typed at a terminal and the signals around it: none comes unnoticed, whenever it
 * comes. A read that misses one waits for ever; then the alarm ends the test. */
#include <pty.h>
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

#include "host/line.h"

enum { PATIENCE_SECONDS = 120 };

#ifdef __SANITIZE_ADDRESS__
/* libedit copies what EL_ADDFN names, and keeps the copies when the editor ends. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void) {
  return "leak:wcsdup\n";
}
#endif

static int keyboard, terminal, report; /* the terminal's ends; where results are told */
static ett_line *line;
static volatile sig_atomic_t came;

static void on_signal(int number) {
  (void)number;
  came = 1;
}

static bool has_come(void *context) {
  (void)context;
  return came;
}

/* The answer is no, and the signal is there before the wait begins. */
static bool comes_after_the_answer(void *context) {
  (void)context;
  raise(SIGINT);
  return false;
}

static int open_line(void **state) {
  (void)state;
  ett_err err = {ETT_OK, ""};
  came = 0;
  if (openpty(&keyboard, &terminal, NULL, NULL, NULL) != 0)
    return -1;
  fflush(stdout);
  dup2(terminal, STDIN_FILENO);
  dup2(terminal, STDOUT_FILENO);
  line = ett_line_new(&err);
  return line ? 0 : -1;
}

static int close_line(void **state) {
  (void)state;
  ett_line_free(line);
  fflush(stdout);
  dup2(report, STDOUT_FILENO);
  close(terminal);
  close(keyboard);
  return 0;
}

static void type_text(const char *text) {
  assert_int_equal(write(keyboard, text, strlen(text)), strlen(text));
}

static void lines_are_read(void **state) {
  (void)state;
  const char *text = NULL;
  ett_line_set_stopped(line, has_come, NULL);
  type_text("one\r");
  assert_int_equal(ett_line_read(line, "> ", &text), ETT_LINE_TEXT);
  assert_string_equal(text, "one");
}

static void a_signal_before_the_read_ends_it(void **state) {
  (void)state;
  const char *text = NULL;
  ett_line_set_stopped(line, has_come, NULL);
  raise(SIGINT);
  assert_int_equal(ett_line_read(line, "> ", &text), ETT_LINE_INTERRUPTED);
}

static void a_signal_just_before_the_wait_ends_it(void **state) {
  (void)state;
  const char *text = NULL;
  ett_line_set_stopped(line, comes_after_the_answer, NULL);
  assert_int_equal(ett_line_read(line, "> ", &text), ETT_LINE_INTERRUPTED);
  assert_int_equal(came, 1);
}

/* A key that is there already is taken first: the signal is seen at the next one. */
static bool comes_with_a_key(void *context) {
  int *asked = context;
  if (++*asked == 1)
    raise(SIGINT);
  return came;
}

static void a_signal_beside_a_key_ends_the_line(void **state) {
  (void)state;
  const char *text = NULL;
  int asked = 0;
  type_text("half");
  ett_line_set_stopped(line, comes_with_a_key, &asked);
  assert_int_equal(ett_line_read(line, "> ", &text), ETT_LINE_INTERRUPTED);
  assert_in_range(asked, 1, 2);
}

static void signals_come_as_before_once_it_is_read(void **state) {
  (void)state;
  const char *text = NULL;
  ett_line_set_stopped(line, has_come, NULL);
  type_text("two\r");
  assert_int_equal(ett_line_read(line, "> ", &text), ETT_LINE_TEXT);
  raise(SIGINT);
  assert_int_equal(came, 1);
}

#define AT_A_TERMINAL(test) cmocka_unit_test_setup_teardown(test, open_line, close_line)

int main(void) {
  report = dup(STDOUT_FILENO);
  setenv("TERM", "dumb", 1);
  setenv("HOME", "/nonexistent", 1);
  struct sigaction action = {.sa_handler = on_signal}; /* no SA_RESTART */
  sigaction(SIGINT, &action, NULL);
  alarm(PATIENCE_SECONDS);
  const struct CMUnitTest tests[] = {
      AT_A_TERMINAL(lines_are_read),
      AT_A_TERMINAL(a_signal_before_the_read_ends_it),
      AT_A_TERMINAL(a_signal_just_before_the_wait_ends_it),
      AT_A_TERMINAL(a_signal_beside_a_key_ends_the_line),
      AT_A_TERMINAL(signals_come_as_before_once_it_is_read),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
