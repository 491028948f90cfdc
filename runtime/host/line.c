#include "host/line.h"

#include <errno.h>
#include <histedit.h>
#include <locale.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <wchar.h>

#define HISTORY_LINES 2000

struct ett_line {
  EditLine *editor;
  History *history;
  char *text; /* the last line read */
  const char *prompt;
  bool interrupted;
  ett_line_complete *complete;
  void *context; /* of complete */
  ett_line_stopped *stopped;
  void *stopped_context;
};

static ett_line *line_of(EditLine *editor) {
  void *line = NULL;
  el_get(editor, EL_CLIENTDATA, &line);
  return line;
}

static char *prompt_of(EditLine *editor) {
  return (char *)line_of(editor)->prompt;
}

/* Waits for a key or a signal; true for a signal. Signals between the check and the wait
 * are not lost. */
static bool wait_for_key(const ett_line *line) {
  sigset_t held, before;
  sigemptyset(&held);
  sigaddset(&held, SIGINT);
  sigaddset(&held, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &held, &before);
  bool stopped = line->stopped && line->stopped(line->stopped_context);
  if (!stopped) {
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    stopped = ppoll(&input, 1, NULL, &before) < 0 && errno == EINTR;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  return stopped;
}

/* Reads one character. libedit's own reader continues after a signal; this one ends the
 * line. */
static int read_character(EditLine *editor, wchar_t *character) {
  ett_line *line = line_of(editor);
  char bytes[8];
  size_t count = 0;
  while (count < sizeof bytes) {
    if (wait_for_key(line)) {
      line->interrupted = true;
      return 0;
    }
    if (read(STDIN_FILENO, bytes + count, 1) <= 0)
      return 0;
    count++;
    mbstate_t state;
    memset(&state, 0, sizeof state);
    const size_t length = mbrtowc(character, bytes, count, &state);
    if (length != (size_t)-2 && length != (size_t)-1)
      return 1;
    if (length == (size_t)-1) { /* invalid in this locale */
      *character = (wchar_t)(unsigned char)bytes[0];
      return 1;
    }
  }
  return 0;
}

static unsigned char complete(EditLine *editor, int key) {
  (void)key;
  ett_line *line = line_of(editor);
  const LineInfo *info = el_line(editor);
  if (!line->complete)
    return CC_ERROR;
  const size_t length = (size_t)(info->cursor - info->buffer);
  char *text = strndup(info->buffer, length), *insert = NULL, *list = NULL;
  if (!text)
    return CC_ERROR;
  line->complete(line->context, text, &insert, &list);
  free(text);
  unsigned char result = CC_ERROR;
  if (list && *list) {
    printf("\n%s\n", list);
    fflush(stdout);
    result = CC_REDISPLAY;
  }
  if (insert && *insert && el_insertstr(editor, insert) == 0)
    result = result == CC_REDISPLAY ? CC_REDISPLAY : CC_REFRESH;
  free(insert);
  free(list);
  return result;
}

static void set_up(ett_line *line) {
  HistEvent event;
  history(line->history, &event, H_SETSIZE, HISTORY_LINES);
  history(line->history, &event, H_SETUNIQUE, 1);
  el_set(line->editor, EL_CLIENTDATA, line);
  el_set(line->editor, EL_PROMPT, prompt_of);
  el_set(line->editor, EL_EDITOR, "emacs");
  el_set(line->editor, EL_HIST, history, line->history);
  el_set(line->editor, EL_GETCFN, read_character);
  el_set(line->editor, EL_ADDFN, "ett-complete", "complete a name", complete);
  el_set(line->editor, EL_BIND, "^I", "ett-complete", NULL);
  el_set(line->editor, EL_BIND, "^R", "em-inc-search-prev", NULL);
  el_set(line->editor, EL_BIND, "\033[1~", "ed-move-to-beg", NULL);
  el_set(line->editor, EL_BIND, "\033[4~", "ed-move-to-end", NULL);
  el_set(line->editor, EL_BIND, "\033[3~", "ed-delete-next-char", NULL);
  el_source(line->editor, NULL); /* the user's ~/.editrc */
}

ett_line *ett_line_new(ett_err *err) {
  if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO)) {
    ett_err_set(err, ETT_ERR_MISSING, "standard input and output are not a terminal");
    return NULL;
  }
  setlocale(LC_CTYPE, ""); /* only the editor uses it: Lua runs in the locale C */
  const locale_t callers = uselocale(LC_GLOBAL_LOCALE);
  ett_line *line = calloc(1, sizeof *line);
  if (line) {
    line->editor = el_init("ett", stdin, stdout, stderr);
    line->history = history_init();
  }
  if (line && line->editor && line->history) {
    set_up(line);
  } else {
    ett_line_free(line);
    line = NULL;
    ett_err_set(err, ETT_ERR_MEMORY, "cannot open the terminal for editing");
  }
  uselocale(callers);
  return line;
}

void ett_line_set_complete(ett_line *line, ett_line_complete *complete_with,
                           void *context) {
  line->complete = complete_with;
  line->context = context;
}

void ett_line_set_stopped(ett_line *line, ett_line_stopped *stopped, void *context) {
  line->stopped = stopped;
  line->stopped_context = context;
}

ett_line_event ett_line_read(ett_line *line, const char *prompt, const char **text) {
  line->prompt = prompt;
  line->interrupted = false;
  int count = 0;
  const locale_t callers = uselocale(LC_GLOBAL_LOCALE);
  el_resize(line->editor);
  const char *typed = el_gets(line->editor, &count);
  uselocale(callers);
  if (line->interrupted)
    return ETT_LINE_INTERRUPTED;
  if (!typed || count <= 0)
    return ETT_LINE_END;
  free(line->text);
  line->text = strndup(typed, (size_t)count);
  if (!line->text)
    return ETT_LINE_INTERRUPTED;
  size_t length = strlen(line->text);
  if (length > 0 && line->text[length - 1] == '\n')
    line->text[length - 1] = '\0';
  *text = line->text;
  return ETT_LINE_TEXT;
}

void ett_line_remember(ett_line *line, const char *text) {
  HistEvent event;
  history(line->history, &event, H_ENTER, text);
}

int ett_line_load(ett_line *line, const char *path) {
  HistEvent event;
  if (access(path, F_OK) != 0)
    return 0;
  return history(line->history, &event, H_LOAD, path) < 0 ? -1 : 0;
}

int ett_line_save(ett_line *line, const char *path) {
  HistEvent event;
  char temporary[4096];
  if ((size_t)snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid()) >=
      sizeof temporary)
    return -1;
  if (history(line->history, &event, H_SAVE, temporary) < 0 ||
      rename(temporary, path) != 0) {
    unlink(temporary);
    return -1;
  }
  return 0;
}

void ett_line_free(ett_line *line) {
  if (!line)
    return;
  if (line->editor)
    el_end(line->editor);
  if (line->history)
    history_end(line->history);
  free(line->text);
  free(line);
}
