/* ett for other languages: libett.so. A call takes a function's name and JSON arguments
 * and returns JSON.
 *
 *   ett_state *ett = ett_open(NULL, &why);
 *   char *text = ett_call(ett, "predict", "{\"model\": \"llama3-8b\", \"cluster\": …}");
 *   … {"value": {"step_seconds": …}} or {"error": {"kind": …, "message": …}}
 *   ett_free(text);
 *   ett_close(ett);
 *
 * The functions are those of lua/ett/cli/call.lua. A state is for one thread at a time.
 * If the program has a handler for SIGINT, the signal also ends a call on the main
 * thread: the error's kind is "interrupt". Load the library with its symbols global
 * (RTLD_GLOBAL): modules are loaded when needed.
 */
#ifndef ETT_H
#define ETT_H

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ett_state ett_state;

/* NULL with *why (a string that stays valid) when ett's files are missing or there is no
 * memory. prefix: the folder that holds lib/ett and share/ett; NULL: where the library
 * is. */
ett_state *ett_open(const char *prefix, const char **why);

/* Returns text for ett_free; NULL only without memory. */
char *ett_call(ett_state *ett, const char *function, const char *json);

void ett_free(char *text);
void ett_close(ett_state *ett);

#ifdef __cplusplus
}
#endif

#endif
